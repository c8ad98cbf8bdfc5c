"""What the model sees of a conversation: windows, summaries, tasks, and what is said aside."""

import asyncio
import itertools
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from bodies import said
from hotloop import Agent, Budget, Context, Memory, Model, Task, Window, caller, memory_tools, tool
from hotloop.errors import ConfigError, ContextOverflow, InvalidRequest
from hotloop.testing import ScriptedModel, call, raw, run_virtual, say

OVERFLOW = raw(
    b'{"error":{"message":"Reduce the length of the messages.","code":"context_length_exceeded"}}', status=400
)
SUMMARY = "Ann wants blue shoes."


def is_summary(request) -> bool:
    return said(request)[-1].startswith("Summarize our conversation")


def answering(request):
    """A summary where one is asked for, else an answer, with the usage that a service would count."""
    tokens = len(json.dumps(request["messages"])) // 4
    text = SUMMARY if is_summary(request) else f"Answer {len(request['messages'])}."
    return say(text, usage={"prompt_tokens": tokens, "completion_tokens": 5, "total_tokens": tokens + 5})


@tool(read_only=True)
async def look_up(key: str) -> str:
    """Read something long."""
    return f"{key} is " + "long " * 40


def agent_of(replies=answering, *, ttft=0.0, **options) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(replies, ttft=ttft)
    options = {"tools": [look_up], "sessions": ":memory:", **options}
    return Agent(model="m", endpoint=model, **options), model


async def ask(session, *prompts: str) -> None:
    for prompt in prompts:
        await session.run(prompt)


# Zones


def test_instructions_of_a_session_follow_those_of_the_agent_in_one_message():
    async def main():
        agent, model = agent_of(instructions="Be brief.")
        await ask(agent.session("a", instructions="Ann is a child."), "Hi")
        await ask(agent.session("a"), "Again")
        await ask(agent.session("b"), "Hi")
        return model.bodies, [said(request)[0] for request in model.requests]

    bodies, systems = run_virtual(main())
    assert systems == ["Be brief.\n\nAnn is a child."] * 2 + ["Be brief."]
    shared = b'"messages":[{"role":"system","content":"Be brief.'
    assert len({body[: body.index(shared) + len(shared)] for body in bodies}) == 1


def test_what_is_volatile_is_said_last_and_not_kept():
    times = iter(range(9))

    async def main():
        agent, model = agent_of(
            [call("look_up", key="a"), "It is.", "Bye."],
            context=Context(volatile=lambda: f"It is {next(times)} o'clock."),
        )
        await ask(agent.session("a"), "Where?", "Bye")
        return model.bodies, model.requests

    bodies, requests = run_virtual(main())
    aside = [said(request)[-1] for request in requests]
    assert [text.splitlines()[-1] for text in aside] == [f"It is {hour} o'clock." for hour in (0, 0, 1)]
    assert requests[0]["messages"][-1]["content"].startswith("Where?\n\n")
    assert [message["role"] for message in requests[1]["messages"]][-2:] == ["tool", "user"]
    assert "o'clock" not in json.dumps(requests[2]["messages"][:-1])
    for before, after in itertools.pairwise(bodies):  # all but what was said aside is shared
        stable = before[: before.index(b"\\n\\nBackground") if b"\\n\\nBackground" in before else before.rindex(b",{")]
        assert after.startswith(stable)


def test_a_service_that_takes_no_words_of_the_user_after_results_has_them_before():
    """As Mistral's does: "Unexpected role 'user' after role 'tool'"."""
    refused = raw(b"{\"message\":\"Unexpected role 'user' after role 'tool'\"}", status=400)

    def replies(request):
        roles = [message["role"] for message in request["messages"]]
        if "user" in [after for before, after in itertools.pairwise(roles) if before == "tool"]:
            return refused
        return call("look_up", key="a") if roles[-1] == "user" and len(roles) < 3 else "There."

    async def main():
        agent, model = agent_of(replies, context=Context(volatile='It is "noon".'))
        session = agent.session("a")
        first = await session.run('Where is "it"?')
        second = await session.run("Again?")
        return first, second, model.requests

    first, second, requests = run_virtual(main())
    assert [(each.turn, each.why) for each in first.trace.attempts] == [(0, "first"), (1, "first"), (1, "correction")]
    assert [each.why for each in second.trace.attempts] == ["first"]
    assert said(requests[2])[0].startswith('Where is "it"?\n\n')
    assert said(requests[2])[0].endswith('It is "noon".')
    assert said(requests[3])[0] == 'Where is "it"?'


def test_volatile_text_that_is_none_is_an_error():
    agent, _ = agent_of(context=Context(volatile=lambda: 3))
    with pytest.raises(ConfigError, match="volatile"):
        run_virtual(agent.run("Hi"))


def test_a_task_has_its_instructions_once_and_from_the_request_that_needs_them():
    refunds = Task(name="refunds", instructions="Refunds take 14 days.", when="refund|退款")

    async def main():
        agent, model = agent_of(context=Context(tasks=(refunds,), window=Window(turns=4)))
        session = agent.session("a")
        await ask(session, "Hi", "A refund please", "退款", "Bye")
        early = said(model.requests[-1])
        await ask(session, "1", "2", "3", "refund?")
        return early, said(model.requests[-1])

    early, late = run_virtual(main())
    assert [text for text in early if "14 days" in text] == ["Refunds take 14 days.\n\nA refund please"]
    assert late[-1] == "Refunds take 14 days.\n\nrefund?"


# Windows


def test_a_window_leaves_out_early_turns_and_says_so():
    async def main():
        agent, model = agent_of(instructions="Be brief.", context=Context(window=Window(turns=4)))
        session = agent.session("a")
        for number in range(9):
            result = await session.run(f"Question {number}")
        return model.requests, result.trace, await session.history()

    requests, trace, history = run_virtual(main())
    prompts = [[text for text in said(request) if text.startswith("Question")] for request in requests]
    assert max(map(len, prompts)) <= 5
    assert all(said(request)[0] == "Be brief." for request in requests)
    assert prompts[-1][-1] == "Question 8"
    assert trace.facts["left_out"] == 9 - len(prompts[-1])
    assert "not sent" in str(trace)
    assert len(history) == 18


def test_a_window_by_relevance_brings_back_what_the_request_is_about():
    async def main():
        agent, model = agent_of(context=Context(window=Window(turns=2, relevant=1)))
        session = agent.session("a")
        await ask(session, "My parcel has the number 77", "I like tea", "Good weather", "Nice music")
        await ask(session, "What was the number of my parcel?", "Bye")
        return said(model.requests[-2]), len(await session.history()), said(model.requests[-1])

    asked, count, last = run_virtual(main())
    assert "My parcel has the number 77" in asked
    assert "I like tea" not in asked
    assert count == 12
    assert "What was the number of my parcel?" in last


# Compaction


async def grow(session, prompts: int, length: int = 200):
    return [await session.run(f"{number} " + "x" * length) for number in range(prompts)]


def test_the_early_part_is_summarized_in_the_background_and_nobody_waits():
    async def main():
        loop = asyncio.get_running_loop()
        context = Context(limit=1000, compact_at=0.5, keep=2)
        agent, model = agent_of(ttft=0.1, context=context, instructions="Be brief.")
        session, times, traces = agent.session("a"), [], []
        for number in range(12):
            start = loop.time()
            traces.append((await session.run(f"{number} " + "x" * 200)).trace)
            times.append(round(loop.time() - start, 6))
            await asyncio.sleep(0.2)  # the user reads the answer
        await agent.aclose()
        return times, traces, model.requests, await session.history()

    times, traces, requests, history = run_virtual(main())
    assert set(times) == {0.1}
    swapped = [trace for trace in traces if "compaction" in trace.facts]
    assert swapped
    assert all(each["how"] == "in the background" for trace in swapped for each in trace.facts["compaction"])
    assert "summarized in the background" in str(swapped[0])
    assert [each.why for each in swapped[0].attempts] == ["summary", "first"]
    assert swapped[0].usage.input_tokens > swapped[0].turns[0].usage.input_tokens
    sizes = [len(json.dumps(request["messages"])) // 4 for request in requests]
    assert max(sizes) < 1000
    last = said(requests[-1])
    assert last[0] == "Be brief."
    assert SUMMARY in last
    assert len(history) == 24  # all of it is kept


def test_the_summary_is_asked_for_with_the_same_prefix():
    async def main():
        agent, model = agent_of(dialect="openai", context=Context(limit=1000, compact_at=0.5, keep=2))
        session = agent.session("a")
        await grow(session, 8)
        await asyncio.sleep(1)
        return model.bodies, model.requests

    bodies, requests = run_virtual(main())
    at = next(number for number, request in enumerate(requests) if is_summary(request))
    shared = bodies[at][: bodies[at].rindex(b',{"role":"user"')]
    assert bodies[at - 1].startswith(shared)
    assert requests[at]["tools"] == requests[0]["tools"]


def test_at_the_limit_the_run_waits_for_the_summary():
    async def main():
        agent, model = agent_of(ttft=0.1, context=Context(limit=700, compact_at=0.99, keep=2))
        session = agent.session("a")
        results = await grow(session, 14)
        return [result.trace for result in results], model.requests

    traces, requests = run_virtual(main())
    waited = [trace for trace in traces if "compaction" in trace.facts]
    assert waited
    assert all(len(json.dumps(request["messages"])) // 4 < 800 for request in requests)
    stage = next(stage for stage in waited[0].stages if stage.kind == "context" and "summar" in stage.note)
    assert 0 < stage.end - stage.start <= 100_000_000
    assert waited[0].unattributed_ms == 0


def test_a_summary_that_fails_in_the_background_costs_nothing_and_is_tried_again():
    failing = [True]

    def replies(request):
        if is_summary(request) and failing:
            failing.pop()
            return raw(b'{"error":{"message":"no"}}', status=400)
        return answering(request)

    async def main():
        agent, model = agent_of(replies, context=Context(limit=1000, compact_at=0.5, keep=2))
        session = agent.session("a")
        for number in range(12):
            await session.run(f"{number} " + "x" * 200)
            await asyncio.sleep(0)
            await asyncio.sleep(0.1)
        return said(model.requests[-1])

    assert SUMMARY in run_virtual(main())


def test_where_no_summary_can_be_had_the_beginning_is_left_out():
    def replies(request):
        return raw(b'{"error":{"message":"no"}}', status=400) if is_summary(request) else answering(request)

    async def main():
        agent, model = agent_of(replies, context=Context(limit=700, compact_at=0.99, keep=2))
        session = agent.session("a")
        await grow(session, 14)
        return said(model.requests[-1])

    texts = run_virtual(main())
    assert any("left out" in text for text in texts)


def test_a_service_that_finds_the_prompt_too_long_gets_a_shorter_one_once():
    async def main():
        agent, model = agent_of([*["Yes."] * 5, OVERFLOW, SUMMARY, "At last."])
        session = agent.session("a")
        result = [await session.run(f"{number} " + "x" * 200) for number in range(6)][-1]
        return result, model.requests

    result, requests = run_virtual(main())
    assert result.output == "At last."
    made = [(attempt.why, attempt.outcome) for attempt in result.trace.attempts]
    assert made == [("first", "failed"), ("summary", "ok"), ("correction", "ok")]
    before, summary, after = requests[-3:]
    assert is_summary(summary)
    assert len(said(after)) < len(said(before))
    assert said(after)[-1] == said(before)[-1]
    assert SUMMARY in said(after)


def test_a_limit_that_a_service_names_is_kept_from_then_on():
    """Each prompt that is too long costs a request and a wait, so that one has to do."""
    refused = raw(b'{"error":{"message":"This model\'s maximum context length is 700 tokens."}}', status=400)

    def replies(request):
        too_long = len(json.dumps(request["messages"])) // 4 > 700 and not is_summary(request)
        return refused if too_long else answering(request)

    async def main():
        agent, _ = agent_of(replies, ttft=0.1)
        session = agent.session("a")
        traces = []
        for number in range(30):
            traces.append((await session.run(f"{number} " + "x" * 200)).trace)
            await asyncio.sleep(0.5)
        return traces

    traces = run_virtual(main())
    assert sum(attempt.outcome == "failed" for trace in traces for attempt in trace.attempts) == 1
    assert sum("compaction" in trace.facts for trace in traces) > 2


def test_a_run_that_overflows_more_than_once_goes_on():
    calls = [call("look_up", key=str(number)) for number in range(8)]

    async def main():
        script = [*calls[:3], OVERFLOW, SUMMARY, *calls[3:6], OVERFLOW, SUMMARY, "Done."]
        agent, _ = agent_of(script, max_turns=20)
        return (await agent.run("Look up everything")).output

    assert run_virtual(main()) == "Done."


def test_a_summary_that_fails_is_tried_seldom_and_does_not_use_up_the_service():
    def replies(request):
        return raw(b'{"error":{"message":"no"}}', status=500) if is_summary(request) else answering(request)

    async def main():
        agent, model = agent_of(replies, context=Context(limit=4000, compact_at=0.1, keep=2))
        session = agent.session("a")
        for number in range(30):
            await session.run(f"{number} " + "x" * 200)
            await asyncio.sleep(1.5)
        return sum(map(is_summary, model.requests))

    assert run_virtual(main()) <= 6


def test_a_run_does_not_wait_for_a_summary_for_ever():
    async def main():
        small = Model(name="small", endpoint=ScriptedModel(lambda request: SUMMARY, ttft=200.0))
        agent, model = agent_of(ttft=0.1, context=Context(limit=700, compact_at=0.9, keep=2, summarizer=small))
        results = await grow(agent.session("a"), 14)
        await agent.aclose()
        return [result.trace for result in results], said(model.requests[-1])

    traces, texts = run_virtual(main())
    assert max(trace.end_to_end_ms for trace in traces) <= 15_200
    assert any("left out" in text for text in texts)
    assert any("the beginning left out" in str(trace) for trace in traces)


@pytest.mark.parametrize(
    ("context", "says"),
    [
        (Context(volatile=lambda: 1 / 0), "volatile=...\\) failed: ZeroDivisionError"),
        (Context(tasks=(Task(name="t", instructions="x", when=lambda prompt: 1 / 0),)), "task t failed"),
        (Context(limit=100, count_tokens=lambda text: 1 / 0), "count_tokens=...\\) failed"),
    ],
)
def test_what_the_functions_of_a_context_raise_is_an_error_of_ours(context, says):
    agent, _ = agent_of(context=context)
    with pytest.raises(ConfigError, match=says) as caught:
        run_virtual(agent.session("a").run("Hi"))
    assert caught.value.trace is not None


def test_what_is_volatile_knows_for_whom_it_is():
    agent, model = agent_of(context=Context(volatile=lambda: f"The user is {caller().user}."))
    run_virtual(agent.run("Hi", user="ann"))
    assert said(model.requests[0])[-1].endswith("The user is ann.")
    assert caller().user == ""


def test_a_prompt_that_stays_too_long_is_an_error_and_leaves_nothing():
    async def main():
        agent, model = agent_of([*["Yes."] * 5, OVERFLOW, SUMMARY, OVERFLOW, "Still here."])
        session = agent.session("a")
        await ask(session, *(f"{number} " + "x" * 200 for number in range(5)))
        with pytest.raises(ContextOverflow):
            await session.run("Too much")
        await session.run("Hello?")
        return said(model.requests[-1]), await session.history()

    texts, history = run_virtual(main())
    assert "Too much" not in texts
    assert len(history) == 12


def test_a_long_run_is_shortened_within_itself_and_kept_whole():
    """Results that pile up in one run are summarized too; no call is parted from its result."""
    calls = [call("look_up", key=str(number)) for number in range(8)]

    def replies(request):
        if is_summary(request):
            return SUMMARY
        done = sum(message["role"] == "assistant" for message in request["messages"])
        return next_call() if done < 99 else "Done."

    left = list(calls)

    def next_call():
        return left.pop(0) if left else "Done."

    async def main():
        agent, model = agent_of(replies, context=Context(limit=350, compact_at=0.9, keep=2))
        session = agent.session("a")
        result = await session.run("Look up everything")
        await session.run("And?")
        return result, model.requests, await session.history()

    result, requests, history = run_virtual(main())
    assert result.output == "Done."
    assert "compaction" in result.trace.facts
    for request in requests:
        ids = [item["id"] for message in request["messages"] for item in message.get("tool_calls") or ()]
        assert ids == [m["tool_call_id"] for m in request["messages"] if m["role"] == "tool"]
    assert sum(message["role"] == "tool" for message in history) == 8
    assert "Look up everything" in said(requests[-1]) or SUMMARY in said(requests[-1])


def test_a_small_model_may_summarize():
    small = ScriptedModel(lambda request: SUMMARY)

    async def main():
        context = Context(limit=700, compact_at=0.5, keep=2, summarizer=Model(name="small", endpoint=small))
        agent, model = agent_of(context=context)
        session = agent.session("a")
        for number in range(12):
            await session.run(f"{number} " + "x" * 200)
            await asyncio.sleep(0.1)
        return said(model.requests[-1]), len(small.requests), any(map(is_summary, model.requests))

    texts, asked, own = run_virtual(main())
    assert SUMMARY in texts
    assert asked >= 1
    assert not own


def test_a_summary_lasts_as_long_as_the_session(tmp_path):
    context = Context(limit=1000, compact_at=0.5, keep=2)

    async def main():
        agent, _ = agent_of(context=context, sessions=tmp_path / "s.db")
        for number in range(10):
            await agent.session("a").run(f"{number} " + "x" * 200)
            await asyncio.sleep(0.1)
        await agent.aclose()
        other, model = agent_of(context=context, sessions=tmp_path / "s.db")
        await other.session("a").run("Still?")
        history = await other.session("a").history()
        await other.aclose()
        return said(model.requests[0]), history

    texts, history = run_virtual(main())
    assert SUMMARY in texts
    assert len(history) == 22


def test_a_run_without_a_session_is_shortened_too():
    async def main():
        agent, model = agent_of(
            [call("look_up", key="a"), call("look_up", key="b"), OVERFLOW, SUMMARY, "There."],
        )
        return (await agent.run("Where?")).output, said(model.requests[-1])

    output, texts = run_virtual(main())
    assert output == "There."
    assert SUMMARY in texts
    assert "Where?" in texts


def test_an_overflow_that_nothing_can_be_left_out_for_is_an_error():
    agent, model = agent_of([OVERFLOW])
    with pytest.raises((ContextOverflow, InvalidRequest)):
        run_virtual(agent.run("Hi"))
    assert len(model.requests) == 1


# Results


@tool(read_only=True, max_result=60, summarize=True)
async def read_letter() -> str:
    """A long letter."""
    return "Dear Ann, " + "I write at length of this and that. " * 60


@tool(read_only=True, keep=("status", "items[].sku"))
async def order() -> dict:
    """An order."""
    return {"status": "sent", "items": [{"sku": "A1", "note": "x" * 80}, {"sku": "B2", "note": "y" * 80}], "log": "z"}


def test_a_long_text_is_summarized_by_the_small_model_and_can_be_read_whole():
    small = ScriptedModel(lambda request: "A letter to Ann.")

    async def main():
        agent, model = agent_of(
            [call("read_letter"), call("read_result", result="call00001"), "Read."],
            tools=[read_letter],
            context=Context(summarizer=Model(name="small", endpoint=small)),
        )
        result = await agent.session("a").run("What does Ann's letter say?")
        return result.trace, said(model.requests[1])[-1], said(model.requests[2])[-1], small.requests

    trace, shown, rest, asked = run_virtual(main())
    assert shown.startswith("A letter to Ann.\n[summary")
    assert rest.startswith("Dear Ann, I write")
    assert "Ann's letter" in said(asked[0])[-1]
    assert "summarized" in [stage.note for stage in trace.stages]
    assert [each.model for each in trace.attempts if each.why == "summary"] == ["small"]


def test_what_a_tool_keeps_goes_on_and_the_rest_can_be_read_in_a_later_process(tmp_path):
    async def main():
        agent, model = agent_of([call("order"), "Sent."], tools=[order], sessions=tmp_path / "s.db")
        await agent.session("a").run("Where is my order?")
        await agent.aclose()
        later, asked = agent_of(
            [call("read_result", result="call00001", path="items[1].note"), "Yes."],
            tools=[order],
            sessions=tmp_path / "s.db",
        )
        await later.session("a").run("What does the note say?")
        await later.aclose()
        return said(model.requests[1])[-1], said(asked.requests[-1])[-1]

    shown, note = run_virtual(main())
    kept = json.loads(shown)
    assert kept["status"] == "sent"
    assert kept["items"] == [{"sku": "A1"}, {"sku": "B2"}]
    assert note == "y" * 80


# Memory


class Slow(Memory):
    """A memory that takes its time."""

    async def recall(self, request, *, user, session=""):
        await asyncio.sleep(0.2)
        return await super().recall(request, user=user, session=session)


async def told(memory, **options):
    memory.remember("Ann wears shoes of size 39.", user="ann")
    memory.remember("Bob hates shoes.", user="bob")
    agent, model = agent_of(memory=memory, ttft=0.1, **options)
    result = await agent.session("a", user="ann").run("Which shoes fit?")
    await agent.run("Which shoes fit?", user="bob")
    await agent.run("Which shoes fit?")
    await agent.aclose()
    await memory.aclose()
    return result.trace, [said(request)[-1] for request in model.requests]


def test_what_is_known_of_the_user_is_said_aside():
    trace, (ann, bob, nobody) = run_virtual(told(Memory(":memory:")))
    assert ann.startswith("Which shoes fit?\n\n")
    assert ann.endswith("- Ann wears shoes of size 39.")
    assert bob.endswith("- Bob hates shoes.")
    assert "Ann" not in bob
    assert nobody == "Which shoes fit?"
    assert trace.facts["memory"] == "1 fact"
    assert "memory: 1 fact" in str(trace)


@pytest.mark.parametrize("options", [{}, {"budget": Budget(memory=0.02)}])
def test_late_memory_is_left_out_and_said_so(options):
    trace, (ann, _, _) = run_virtual(told(Slow(":memory:", timeout=0.05), **options))
    assert ann == "Which shoes fit?"
    assert trace.facts["memory"] == "late, left out"
    stages = [stage.end - stage.start for stage in trace.stages if stage.kind == "memory"]
    assert stages == [20_000_000 if options else 50_000_000]
    assert trace.unattributed_ms == 0


def test_a_memory_that_cannot_be_used_is_left_out_and_said_so(tmp_path, caplog):
    async def main():
        (tmp_path / "memory.db").write_text("no database")
        agent, model = agent_of(memory=Memory(tmp_path / "memory.db"))
        result = await agent.run("Hi", user="ann")
        return result.trace.facts["memory"], said(model.requests[0])

    told, texts = run_virtual(main())
    assert told.startswith("failed, left out: ")
    assert texts == ["Hi"]
    assert "left out" in caplog.text


def test_the_owner_of_a_session_is_known_to_who_goes_on_with_it(tmp_path):
    async def main():
        memory = Memory(tmp_path / "memory.db")
        memory.remember("Ann likes tea.", user="ann")
        agent, _ = agent_of(sessions=tmp_path / "s.db")
        await agent.session("a", user="ann").run("Hi")
        await agent.aclose()
        later, model = agent_of(sessions=tmp_path / "s.db", memory=memory)
        await later.session("a").run("What do I like?")
        await later.aclose()
        await memory.aclose()
        return said(model.requests[-1])[-1]

    assert run_virtual(main()).endswith("- Ann likes tea.")


def test_a_model_remembers_by_tools_what_a_later_conversation_knows():
    async def main():
        memory = Memory(":memory:")
        agent, model = agent_of(
            [call("remember", fact="The user lives in Xi'an."), "Noted.", "In Xi'an."],
            tools=memory_tools(memory),
            memory=memory,
        )
        await agent.session("a", user="ann").run("I live in Xi'an.")
        await agent.session("b", user="ann").run("Where do I live?")
        await agent.aclose()
        await memory.aclose()
        return said(model.requests[-1])

    assert run_virtual(main())[-1].endswith("- The user lives in Xi'an.")


# Within the budget


@pytest.mark.parametrize("background", [True, False])
def test_a_summary_that_takes_too_long_costs_the_beginning_and_not_the_answer(background):
    async def main():
        slow = ScriptedModel([SUMMARY] * 9, ttft=60.0)
        context = Context(
            limit=700,
            compact_at=0.5 if background else 0.99,
            keep=2,
            summarizer=Model(name="slow", endpoint=slow),
        )
        agent, model = agent_of(answering, ttft=0.1, context=context, budget=Budget(total=5.0, answer_reserve=1.0))
        results = await grow(agent.session("a"), 14)
        await agent.aclose()
        return results, said(model.requests[-1])

    results, texts = run_virtual(main())
    assert max(result.trace.end_to_end_ms for result in results) <= 4100
    assert any("left out" in text for text in texts)


def test_a_summary_that_is_no_shorter_is_not_taken():
    def replies(request):
        return SUMMARY * 300 if is_summary(request) else answering(request)

    async def main():
        agent, model = agent_of(replies, context=Context(limit=700, compact_at=0.99, keep=2))
        await grow(agent.session("a"), 14)
        return said(model.requests[-1])

    texts = run_virtual(main())
    assert any("left out" in text for text in texts)
    assert not any(SUMMARY in text for text in texts)


def test_what_is_said_aside_counts_towards_the_limit():
    async def main():
        agent, model = agent_of(context=Context(limit=700, keep=1, compact_at=0.99, volatile="y " * 900))
        session = agent.session("a")
        results = await grow(session, 6)
        return [len(json.dumps(request["messages"])) // 4 for request in model.requests], results

    sizes, results = run_virtual(main())
    assert any("compaction" in result.trace.facts for result in results)
    assert max(sizes[3:]) < 850


def test_prompts_may_be_merged_from_several_threads():
    model = ScriptedModel(lambda request: "Yes.")
    agent = Agent(model="m", endpoint=model, sessions=":memory:", busy="merge")
    session = agent.session("a")
    with ThreadPoolExecutor(3) as threads:
        results = list(threads.map(lambda number: session.run_sync(f"{number}").output, range(6)))
    assert results == ["Yes."] * 6
