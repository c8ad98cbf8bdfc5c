"""A conversation that lasts: whole turns or nothing, one run at a time, and a prefix that never changes."""

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bodies import said
from hotloop import Agent, tool
from hotloop.errors import HotloopError, InvalidRequest
from hotloop.events import RunFinished
from hotloop.testing import ScriptedModel, call, raw, run_virtual, say


@tool(read_only=True)
async def look_up(key: str, ms: int = 100) -> str:
    """Read something that takes its time."""
    await asyncio.sleep(ms / 1000)
    return f"{key} found"


@tool
async def track_parcel(number: str) -> str:
    """Where a parcel is."""
    return number


@tool
async def weather(city: str) -> str:
    """What the weather is like."""
    return city


def agent_of(script, *, ttft=0.02, tpot=0.0, tools=(look_up,), **options) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(script, ttft=ttft, tpot=tpot)
    return Agent(model="m", endpoint=model, tools=tools, **{"sessions": ":memory:", **options}), model


REFUSED = raw(b'{"error":{"message":"no"}}', status=400)
WITH_TOOLS = say("One moment.", call("look_up", key="a"))


def test_it_remembers_what_was_said():
    async def main():
        agent, model = agent_of(["Hello Ann.", WITH_TOOLS, "It is there.", "Ann."], instructions="Be brief.")
        session = agent.session("ann")
        for prompt in ("I am Ann.", "Where is a?", "Who am I?"):
            await session.run(prompt)
        return model.requests[-1]

    request = run_virtual(main())
    assert said(request) == [
        "Be brief.",
        "I am Ann.",
        "Hello Ann.",
        "Where is a?",
        "One moment.",
        "a found",
        "It is there.",
        "Who am I?",
    ]


def test_sessions_and_plain_runs_do_not_mix():
    async def main():
        agent, model = agent_of(lambda request: "Yes.")
        await asyncio.gather(*(agent.session(name).run(f"I am {name}") for name in "ab"), agent.run("Nobody"))
        await agent.session("a").run("Who am I?")
        await agent.run("Who am I?")
        return [said(request) for request in model.requests[-2:]]

    assert run_virtual(main()) == [["I am a", "Yes.", "Who am I?"], ["Who am I?"]]


def test_the_same_id_is_the_same_session():
    agent, _ = agent_of([])
    assert agent.session("a") is agent.session("a")
    assert agent.session("a") is not agent.session("b")


# Whole turns or nothing


async def next_request(agent: Agent, model: ScriptedModel) -> dict:
    """What the session's next run begins with."""
    await agent.session("a").run("Again")
    return model.requests[-1]


def test_a_run_that_fails_leaves_nothing():
    async def main():
        agent, model = agent_of(["Hello.", WITH_TOOLS, REFUSED, "Yes."])
        session = agent.session("a")
        await session.run("Hi")
        with pytest.raises(InvalidRequest):
            await session.run("Where is a?")
        return said(await next_request(agent, model))

    assert run_virtual(main()) == ["Hi", "Hello.", "Again"]


def test_a_stream_that_fails_leaves_nothing():
    async def main():
        agent, model = agent_of(["Hello.", WITH_TOOLS, REFUSED, "Yes."])
        await agent.session("a").run("Hi")
        with pytest.raises(InvalidRequest) as caught:
            async for _ in agent.session("a").stream("Where is a?"):
                pass
        assert caught.value.trace is not None
        return said(await next_request(agent, model))

    assert run_virtual(main()) == ["Hi", "Hello.", "Again"]


def whole(request: dict) -> None:
    """No call without its result, no result without its call, and no user turn without an answer but the last."""
    open_calls: list[str] = []
    for before, message in zip([None, *request["messages"]], request["messages"], strict=False):
        if message["role"] == "tool":
            open_calls.remove(message["tool_call_id"])
        else:
            assert not open_calls
            open_calls = [item["id"] for item in message.get("tool_calls") or ()]
        if before is not None and message["role"] == "user":
            assert before["role"] in ("assistant", "system")
            assert not before.get("tool_calls")
    assert not open_calls


SCRIPT = [
    [call("look_up", key="a", ms=30), call("look_up", key="b", ms=60)],
    raw(b'{"error":{"message":"busy"}}', status=503, headers={"retry-after": "0.05"}),
    say("Nearly.", call("look_up", key="c", ms=10)),
    "All is there.",
]


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 400), st.integers(0, 6), st.booleans())
def test_a_run_that_is_cancelled_at_any_moment_is_in_the_session_whole_or_not_at_all(ms, steps, streamed):
    async def main():
        agent, model = agent_of(["Hello.", *SCRIPT, *["Yes."] * 9], tpot=0.001)
        session = agent.session("a")
        await session.run("Hi")

        async def work():
            if streamed:
                return [event async for event in session.stream("Where?")][-1].result.output
            return (await session.run("Where?")).output

        task = asyncio.create_task(work())
        await asyncio.sleep(ms / 1000)
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task}, timeout=0.1)
        assert task.done()
        request = await next_request(agent, model)
        return task.cancelled(), request

    cancelled, request = run_virtual(main())
    whole(request)
    kept = [text for text in said(request) if text in ("Where?", "All is there.")]
    assert kept in ([], ["Where?", "All is there."])
    assert bool(kept) is not cancelled or streamed


def test_a_stream_that_is_left_before_its_end_leaves_nothing():
    async def main():
        agent, model = agent_of(["It is not there yet.", "Yes."], tpot=0.01)
        async for _ in agent.session("a").stream("Where?"):
            break
        return said(await next_request(agent, model))

    assert run_virtual(main()) == ["Again"]


def test_a_stream_that_is_left_at_its_last_event_has_ended():
    async def main():
        agent, model = agent_of(["There.", "Yes."])
        async for event in agent.session("a").stream("Where?"):
            if isinstance(event, RunFinished):
                break
        return said(await next_request(agent, model))

    assert run_virtual(main()) == ["Where?", "There.", "Again"]


# One at a time


def test_runs_at_the_same_time_wait_for_each_other_in_order():
    async def main():
        loop = asyncio.get_running_loop()
        agent, model = agent_of(lambda request: f"Answer {len(request['messages'])}", ttft=0.1)
        session, start = agent.session("a"), loop.time()
        results = await asyncio.gather(*(session.run(f"Question {number}") for number in range(3)))
        return round(loop.time() - start, 6), [result.output for result in results], said(model.requests[-1])

    seconds, outputs, last = run_virtual(main())
    assert seconds == 0.3
    assert outputs == ["Answer 1", "Answer 3", "Answer 5"]
    assert last == ["Question 0", "Answer 1", "Question 1", "Answer 3", "Question 2"]


def test_a_stream_waits_for_a_run_and_a_run_for_a_stream():
    async def main():
        agent, model = agent_of(lambda request: "Yes.", ttft=0.1)
        session = agent.session("a")

        async def stream(prompt: str) -> None:
            async for _ in session.stream(prompt):
                pass

        async def later(ms: int) -> None:
            await asyncio.sleep(ms / 1000)
            await session.run("three")

        await asyncio.gather(session.run("one"), stream("two"), later(ms=1))
        return said(model.requests[-1])

    assert run_virtual(main()) == ["one", "Yes.", "two", "Yes.", "three"]


def test_who_is_cancelled_while_waiting_does_not_hold_up_the_others():
    async def main():
        agent, model = agent_of(lambda request: "Yes.", ttft=0.1)
        session = agent.session("a")
        tasks = [asyncio.create_task(session.run(prompt)) for prompt in ("one", "two", "three")]
        await asyncio.sleep(0.05)
        tasks[1].cancel()
        await asyncio.wait(tasks)
        return said(model.requests[-1])

    assert run_virtual(main()) == ["one", "Yes.", "three"]


def test_after_a_failure_the_next_in_line_goes_on():
    async def main():
        agent, model = agent_of([REFUSED, "Yes."])
        session = agent.session("a")
        results = await asyncio.gather(session.run("one"), session.run("two"), return_exceptions=True)
        return [type(result).__name__ for result in results], said(model.requests[-1])

    assert run_virtual(main()) == (["InvalidRequest", "Result"], ["two"])


# The cached prefix


TURN = st.lists(st.builds(lambda key: call("look_up", key=key, ms=1), st.text(max_size=6)), min_size=1, max_size=3)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.text(max_size=20), st.lists(TURN, max_size=2), st.booleans()), min_size=1, max_size=4),
    st.sampled_from(["openai", "groq", "vllm", "llamacpp"]),
)
def test_over_all_its_runs_each_request_begins_with_all_of_the_one_before(runs, dialect):
    """Failed runs excepted, which leave nothing: what comes after them begins as what came before them."""
    script = []
    for _, turns, fails in runs:
        script += [*turns, REFUSED if fails else "Yes."]

    async def main():
        agent, model = agent_of(script, dialect=dialect, instructions="Be brief.", temperature=0.0, max_tokens=4096)
        stable, session = b"", agent.session("a")
        for prompt, _, _ in runs:
            first = len(model.bodies)
            try:
                await session.run(prompt)
                failed = False
            except HotloopError:
                failed = True
            before = stable
            for body in model.bodies[first:]:
                assert body.startswith(before)
                before = body[: body.rindex(b"}]") + 1]
            stable = stable if failed else before

    run_virtual(main())


# The shortlist


def offered(body: bytes) -> list[str]:
    return [each["function"]["name"] for each in json.loads(body).get("tools", [])]


def test_the_shortlist_is_made_for_the_first_request_and_stays():
    async def main():
        agent, model = agent_of(lambda request: "Yes.", tools=[look_up, track_parcel, weather], shortlist=1)
        session = agent.session("a")
        await session.run("Where is parcel 7?")
        await session.run("And what is the weather in Paris?")
        await agent.run("What is the weather in Paris?")
        return model.bodies

    bodies = run_virtual(main())
    assert [offered(body) for body in bodies] == [["track_parcel"], ["track_parcel"], ["weather"]]
    tools_of = [body[: body.index(b'"messages"')] for body in bodies]
    assert tools_of[0] == tools_of[1]


def test_a_shortlist_as_long_as_the_tools_offers_all_in_their_order():
    async def main():
        agent, model = agent_of(lambda request: "Yes.", tools=[look_up, track_parcel, weather], shortlist=3)
        await agent.run("What is the weather in Paris?")
        return offered(model.bodies[0])

    assert run_virtual(main()) == ["look_up", "track_parcel", "weather"]
