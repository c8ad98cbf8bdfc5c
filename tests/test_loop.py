"""The loop from outside: what the model is asked, what it is told, and when, on the virtual clock."""

import asyncio
import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop import Agent, Budget, Result, tool
from hotloop.errors import RepeatedFailure, TurnLimit
from hotloop.events import CallOpened, TextDelta, ToolFinished, ToolStarted
from hotloop.lab.script import Call
from hotloop.testing import ScriptedModel, call, raw, run_virtual, say
from slow_tools import look_up, runs, send


@pytest.fixture(autouse=True)
def _no_runs():
    runs.clear()


@tool
async def broken(key: str) -> str:
    """Never works."""
    runs.append(key)
    raise ConnectionError("the line is down")


class Asked(ScriptedModel):
    """A scripted model that keeps when it was asked (ms)."""

    def __init__(self, replies, **pace) -> None:
        super().__init__(replies, **pace)
        self.times: list[float] = []

    async def send(self, body, receiver) -> None:
        self.times.append(round((asyncio.get_running_loop().time() - 1) * 1000, 3))
        await super().send(body, receiver)


def agent_of(model: ScriptedModel, **options) -> Agent:
    return Agent(model="m", endpoint=model, tools=options.pop("tools", [look_up, send, broken]), **options)


def asked(script, *, ttft=0.0, tpot=0.0, **options) -> tuple[Result, Asked]:
    """A run in virtual time, and what the model was asked."""
    model = Asked(script, ttft=ttft, tpot=tpot)
    return run_virtual(agent_of(model, **options).run("go")), model


def streamed(script, *, ttft=0.0, tpot=0.0, **options) -> list[tuple[float, object]]:
    """A run's events with their times in ms."""

    async def main():
        loop = asyncio.get_running_loop()
        agent = agent_of(Asked(script, ttft=ttft, tpot=tpot), **options)
        return [(round((loop.time() - 1) * 1000, 3), event) async for event in agent.stream("go")]

    return run_virtual(main())


def results_of(request: dict) -> list[str]:
    """The tool results at the end of a request."""
    contents = []
    for message in reversed(request["messages"]):
        if message["role"] != "tool":
            break
        contents.insert(0, message["content"])
    return contents


# Answers


def test_an_answer_without_tools():
    result, model = asked(["It is fine today."], ttft=0.05, tpot=0.01, instructions="Be brief.")
    assert (result.output, result.finish_reason) == ("It is fine today.", "stop")
    assert model.requests[0]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "go"},
    ]
    assert result.trace.end_to_end_ms == 80


def test_text_is_streamed_as_it_comes():
    events = streamed(["It is fine."], ttft=0.05, tpot=0.01)
    texts = [(at, event.text) for at, event in events if isinstance(event, TextDelta)]
    assert texts == [(50, "It"), (60, " is"), (70, " fine.")]


def test_an_answer_is_only_what_comes_after_the_last_calls():
    result, model = asked([say("Let me look.", call("look_up", key="a")), "It is there."])
    assert result.output == "It is there."
    assert model.requests[1]["messages"][1]["content"] == "Let me look."


@pytest.mark.parametrize(("dialect", "content"), [("generic", None), ("ollama", "")])
def test_blank_text_before_calls_is_no_text(dialect, content):
    _, model = asked([say("\n\n", call("look_up", key="a")), "There."], dialect=dialect)
    assert model.requests[1]["messages"][1]["content"] == content


def test_an_answer_that_the_token_cap_cut_says_so():
    cut = raw(b'data: {"choices":[{"index":0,"delta":{"content":"It is"},"finish_reason":"length"}]}\n\n')
    result, _ = asked([cut])
    assert (result.output, result.finish_reason) == ("It is", "length")


# Tools


@pytest.mark.parametrize(("places", "ms"), [(8, 300), (2, 600), (1, 900)])
def test_parallel_tools_take_as_long_as_there_are_places(places, ms):
    calls = [call("look_up", key=key) for key in "abc"]
    result, model = asked([calls, "There."], max_parallel=places)
    assert result.trace.end_to_end_ms == ms
    assert model.times == [0, ms]
    assert results_of(model.requests[1]) == ["a found", "b found", "c found"]


def test_results_go_back_in_call_order_and_completions_are_told_as_they_come():
    calls = [call("look_up", key=key, ms=ms) for key, ms in (("slow", 300), ("fast", 100), ("middle", 200))]
    events = streamed([calls, "There."])
    finished = [(at, event.content) for at, event in events if isinstance(event, ToolFinished)]
    assert finished == [(100, "fast found"), (200, "middle found"), (300, "slow found")]
    _, model = asked([calls, "There."])
    assert results_of(model.requests[1]) == ["slow found", "fast found", "middle found"]


def test_a_call_is_announced_before_it_is_complete_and_started_when_the_reply_is():
    events = streamed([call("look_up", key="a", ms=0), "There."], ttft=0.05, tpot=0.01)
    opened = [at for at, event in events if isinstance(event, CallOpened)]
    started = [at for at, event in events if isinstance(event, ToolStarted)]
    assert (opened, started) == ([50], [100])


def same_id(*calls: tuple[str, str]) -> list[bytes]:
    """A reply whose calls all have the id "call_0"."""
    items = [
        {"index": at, "id": "call_0", "type": "function", "function": {"name": name, "arguments": arguments}}
        for at, (name, arguments) in enumerate(calls)
    ]
    frames = [{"choices": [{"index": 0, "delta": {"tool_calls": [item]}}]} for item in items]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    return [b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in (*frames, end)]


def test_ids_are_ours_and_unique_though_the_model_repeats_its_own():
    reply = raw(*same_id(("look_up", '{"key":"a","ms":0}'), ("send", '{"key":"b","ms":0}')))
    _, model = asked([reply, reply, reply, "There."])
    messages = model.requests[-1]["messages"]
    called = [item["id"] for message in messages for item in message.get("tool_calls") or ()]
    answered = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert len(set(called)) == 6
    assert answered == called
    assert all(len(each) == 9 and each.isalnum() for each in called)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from(["look_up", "send", "broken", "nothing"]), st.integers(0, 9)),
            min_size=1,
            max_size=5,
        ),
        max_size=4,
    ),
    st.integers(1, 6),
)
def test_every_call_gets_exactly_one_result_right_after_it(turns, places):
    script = [[call(name, key=str(ms), ms=ms) for name, ms in calls] for calls in turns]
    model = Asked([*script, "There."])
    with contextlib.suppress(RepeatedFailure):
        run_virtual(agent_of(model, max_parallel=places).run("go"))
    messages, at = model.requests[-1]["messages"], 1
    while at < len(messages):
        ids = [item["id"] for item in messages[at]["tool_calls"]]
        assert [message["tool_call_id"] for message in messages[at + 1 : at + 1 + len(ids)]] == ids
        at += 1 + len(ids)


def test_unknown_tools_and_wrong_arguments_go_to_the_model_with_what_it_needs():
    calls = [call("lookup", key="a"), Call("look_up", '{"key": 1}'), Call("look_up", '{"key": ')]
    result, model = asked([calls, "Sorry."])
    unknown, wrong, cut = (json.loads(each)["error"] for each in results_of(model.requests[1]))
    assert unknown == "There is no tool lookup; did you mean look_up? The tools are: look_up, send, broken."
    assert "Expected `str`, got `int` - at `$.key`" in wrong
    assert '"properties":{"key":{"type":"string"}' in wrong
    assert "truncated" in cut
    assert result.output == "Sorry."


def test_arguments_that_are_no_json_do_not_go_back_to_the_service():
    """Services refuse a history that has such."""
    _, model = asked([Call("look_up", '{"key": '), "Sorry."])
    (item,) = model.requests[1]["messages"][1]["tool_calls"]
    assert item["function"] == {"name": "look_up", "arguments": "{}"}


def test_a_tool_that_fails_does_not_end_the_run():
    result, model = asked([call("broken", key="a"), "It is broken."])
    assert json.loads(results_of(model.requests[1])[0]) == {"error": "broken failed: ConnectionError: the line is down"}
    assert result.output == "It is broken."


def test_agents_without_tools_offer_none_and_refuse_calls():
    result, model = asked([call("look_up", key="a"), "Sorry."], tools=[])
    assert "tools" not in model.requests[0]
    assert json.loads(results_of(model.requests[1])[0])["error"] == "There is no tool look_up. The tools are: none."
    assert result.output == "Sorry."


# Limits


def endless(request) -> object:
    """A model that calls tools whenever it may."""
    return call("look_up", key=str(len(request["messages"])), ms=0) if "tools" in request else "Enough."


def test_after_max_turns_there_is_one_last_request_without_tools():
    result, model = asked(endless, max_turns=3)
    assert ["tools" in request for request in model.requests] == [True, True, True, False]
    assert (result.output, len(result.trace.turns)) == ("Enough.", 4)


@pytest.mark.parametrize("dialect", ["openai", "groq", "vllm", "llamacpp"])
def test_where_the_service_can_forbid_tools_they_stay_so_that_its_cache_holds(dialect):
    def model(request):
        return "Enough." if request.get("tool_choice") == "none" else call("look_up", key="a", ms=0)

    _, asked_model = asked(model, max_turns=1, dialect=dialect)
    first, last = asked_model.requests
    assert last["tools"] == first["tools"]
    assert (first.get("tool_choice"), last["tool_choice"]) == (None, "none")
    before, after = (body[: body.index(b'"messages"')] for body in asked_model.bodies)
    assert before == after


def test_a_model_that_calls_to_the_last_has_no_answer():
    with pytest.raises(TurnLimit) as caught:
        asked(lambda request: call("look_up", key=str(len(request["messages"])), ms=0), max_turns=2)
    assert str(caught.value).startswith("After 2 turns the model still calls tools instead of answering.")
    assert len(caught.value.trace.turns) == 3
    assert runs == ["1", "3"]


def test_text_beside_calls_in_the_last_reply_is_the_best_answer_there_is():
    result, _ = asked(lambda request: say("So far: a.", call("look_up", key="a", ms=0)), max_turns=2)
    assert result.output == "So far: a."


def test_tools_are_cut_at_the_answer_reserve_and_the_model_answers_from_what_it_has():
    script = [[call("look_up", key="fast", ms=100), call("look_up", key="slow", ms=5000)], "Only the fast one."]
    budget = Budget(total=1.0, answer_reserve=0.3)
    result, model = asked(script, ttft=0.05, budget=budget)
    assert model.times == [0, 700]
    assert "tools" not in model.requests[1]
    assert results_of(model.requests[1]) == ["fast found", '{"error":"look_up did not finish within 0.65 s."}']
    assert (result.output, result.trace.end_to_end_ms) == ("Only the fast one.", 750)


def test_the_reserve_is_kept_even_if_the_first_reply_used_up_all_other_time():
    budget = Budget(total=1.7, answer_reserve=1.0)
    result, model = asked([call("send", key="a"), "Too late for that."], ttft=0.8, budget=budget)
    assert runs == []
    assert results_of(model.requests[1]) == ['{"error":"send was not started: there is only time left to answer."}']
    assert (model.times, result.output) == ([0, 800], "Too late for that.")


def test_no_answer_in_the_reserve_names_the_turns_there_were():
    with pytest.raises(TurnLimit, match=r"^After 1 turn the model"):
        asked(lambda request: call("look_up", key="a"), budget=Budget(total=0.2, answer_reserve=0.01))


@pytest.mark.parametrize("name", ["broken", "nothing"])
def test_after_the_third_same_failure_the_model_is_asked_for_an_answer_without_tools(name):
    result, model = asked([call(name, key="a")] * 3 + ["I could not look it up."])
    assert result.output == "I could not look it up."
    assert "tools" in model.requests[0] and "tools" not in model.requests[-1]
    assert "3 times" in result.trace.facts["stopped"]


def test_a_model_that_has_no_answer_then_has_failed():
    with pytest.raises(RepeatedFailure, match="same call of broken 3 times") as caught:
        asked([call("broken", key="a")] * 9)
    assert len(caught.value.trace.turns) == 4


def test_failures_that_differ_do_not_end_it():
    script = [call("broken", key=str(number)) for number in range(5)]
    assert asked([*script, "I give up."])[0].output == "I give up."


def test_a_call_that_works_in_between_is_no_failure():
    tries = iter([False, False, True, True])

    @tool
    async def moody() -> str:
        if not next(tries):
            raise ConnectionError("down")
        return "up"

    result, _ = asked([call("moody")] * 4 + ["It is up."], tools=[moody])
    assert result.output == "It is up."


def test_the_same_call_several_times_in_one_reply_is_told_once_more_before_the_run_ends():
    """The model cannot know that a call fails while it still writes it again."""
    result, model = asked([[call("broken", key="a")] * 4, "It is broken."])
    assert (len(runs), len(results_of(model.requests[1])), result.output) == (4, 4, "It is broken.")


# Repeating


def test_identical_read_only_calls_in_one_reply_run_once_and_each_has_its_result():
    _, model = asked([[call("look_up", key="a"), call("send", key="b"), call("look_up", key="a")], "There."])
    assert runs == ["a", "b"]
    assert results_of(model.requests[1]) == ["a found", "b sent", "a found"]


def test_results_are_kept_from_run_to_run_and_expire():
    async def main():
        script = [call("look_up", key="a", ms=0), "There."]
        agent, counts = agent_of(Asked(script * 3), tool_ttl=1.0), []
        for pause in (0.0, 0.5, 0.6):
            await asyncio.sleep(pause)
            await agent.run("go")
            counts.append(len(runs))
        return counts

    assert run_virtual(main()) == [1, 1, 2]


# The cached prefix


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(1, 4), st.sampled_from(["openai", "groq", "vllm", "generic"]), st.booleans())
def test_each_request_begins_with_all_of_the_one_before(turns, width, dialect, prefix_cache):
    """Byte by byte, up to the end of the messages."""
    script = [[call("look_up", key=f"{turn}-{number}", ms=number) for number in range(width)] for turn in range(turns)]
    options = {"dialect": dialect, "prefix_cache": prefix_cache, "temperature": 0.0, "max_tokens": 4096}
    _, model = asked([*script, "There."], instructions="Be brief.", **options)
    for before, after in zip(model.bodies, model.bodies[1:], strict=False):
        stable = before[: before.rindex(b"}]") + 1]
        assert after.startswith(stable)


def test_the_same_call_is_the_same_however_it_is_written():
    ways = ['{"key":"a","ms":1}', '{"ms":1, "key":"a"}', '{ "key": "a", "ms": 1 }']
    result, model = asked([Call("broken", way) for way in ways] + ["I give up."])
    assert (result.output, len(model.requests)) == ("I give up.", 4)
