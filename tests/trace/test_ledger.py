"""Every nanosecond of a run has an owner, whatever happens in it."""

import asyncio
from itertools import pairwise
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop import Agent, Budget, HotloopError, Trace, tool
from hotloop.lab.script import Call, RawReply
from hotloop.testing import ScriptedModel, SimulatedService, call, raw, run_virtual, say
from hotloop.trace.ledger import Kind, Ledger
from hotloop.units import NS_PER_MS

KINDS = set(get_args(Kind))


class Hands:
    """A clock that goes on by so many nanoseconds with each look."""

    def __init__(self, step: int) -> None:
        self.now, self.step = 1_000, step

    def __call__(self) -> int:
        self.now += self.step
        return self.now


def spans(ledger: Ledger) -> list[tuple]:
    return [(stage.kind, stage.start - ledger.start, stage.end - ledger.start, stage.lane) for stage in ledger.stages]


def test_marks_follow_one_another_without_a_gap():
    ledger = Ledger(Hands(10), "id")
    ledger.mark("context")
    ledger.mark_at("connect", ledger.at + 4)
    ledger.mark("prefill")
    ledger.close()
    assert spans(ledger) == [
        ("context", 0, 10, 0),
        ("connect", 10, 14, 0),
        ("prefill", 14, 20, 0),
        ("overhead", 20, 30, 0),
    ]
    assert ledger.end - ledger.start == 30


def test_a_time_in_the_past_marks_nothing():
    """A reply without a token has no first token: its time is 0."""
    ledger = Ledger(Hands(10), "id")
    ledger.mark_at("decode", 0)
    ledger.mark_at("decode", ledger.at)
    assert ledger.stages == []


def test_stages_beside_the_run_leave_it_where_it_is():
    ledger = Ledger(Hands(10), "id")
    ledger.turn = 3
    ledger.add("tool", 1_020, 1_050, 2, "look_up", "failed")
    (stage,) = ledger.stages
    assert (stage.turn, stage.lane, stage.name, stage.note) == (3, 2, "look_up", "failed")
    assert ledger.at == ledger.start


# Random runs


@tool(read_only=True)
async def look_up(ms: int) -> str:
    """Takes its time."""
    await asyncio.sleep(ms / 1000)
    return str(ms)


@tool
async def send(ms: int) -> str:
    """Takes its time, and fails if that is odd."""
    await asyncio.sleep(ms / 1000)
    if ms % 2:
        raise ConnectionError(f"{ms} is odd")
    return str(ms)


@tool(idempotent=True)
async def shaky(ms: int) -> str:
    """Takes its time, and always fails."""
    await asyncio.sleep(ms / 1000)
    raise ConnectionError("always")


@tool
def plain(ms: int) -> str:
    """Takes no virtual time."""
    return str(ms)


FAULTS = [
    raw(b'{"error":{"message":"busy"}}', status=503, headers={"retry-after": "0.02"}),
    raw(b'data: {"choices":[{"index":0,"delta":{"content":"Let me"}}]}\n\n', cut=True),
    raw(b"<html>", status=200),
    raw(b'{"error":{"message":"no"}}', status=400),
]
calls = st.builds(
    lambda name, ms: call(name, ms=ms),
    st.sampled_from(["look_up", "send", "shaky", "plain", "unknown"]),
    st.integers(0, 40) | st.sampled_from([5, 300]),
) | st.just(Call("look_up", '{"ms": "no"}'))
replies = st.builds(say, st.sampled_from(["", "Let me see.", "查询中"]), calls) | st.lists(
    calls, min_size=1, max_size=6
)
scripts = st.lists(replies | st.sampled_from(FAULTS), max_size=6).map(lambda turns: [*turns, "There it is, all of it."])
options = st.fixed_dictionaries(
    {
        "max_parallel": st.integers(1, 4),
        "max_turns": st.integers(1, 5),
        "tool_timeout": st.sampled_from([None, 0.03]),
        "tool_retry": st.integers(0, 2),
        "tool_ttl": st.sampled_from([None, 0.02, 60.0]),
        "stream": st.booleans(),
        "budget": st.sampled_from([None, Budget(total=0.15, tools=0.02, answer_reserve=0.05), Budget(model=0.03)]),
    }
)
paces = st.sampled_from([(0.0, 0.0), (0.02, 0.0), (0.02, 0.002), (0.0, 0.001)])


async def traced(agent: Agent, prompt: str = "go") -> Trace:
    """The trace of a run, whether it succeeds or not."""
    try:
        return (await agent.run(prompt)).trace
    except HotloopError as error:
        return error.trace


def lengths(stages) -> int:
    return sum(stage.end - stage.start for stage in stages)


def assert_every_stage_is_sound(trace: Trace) -> None:
    assert {stage.kind for stage in trace.stages} <= KINDS
    assert all(stage.start <= stage.end for stage in trace.stages)
    main = [stage for stage in trace.stages if stage.lane == 0]
    assert all(one.end <= other.start for one, other in pairwise(main))
    assert trace.unattributed_ms >= 0


def assert_path_is_the_run(trace: Trace) -> None:
    """The critical path goes from the start to the end, each stage beginning where the one before ends."""
    path = trace.critical_path()
    assert all(one.end == other.start for one, other in pairwise(path))
    assert trace.unattributed_ms == 0
    assert abs(lengths(path) / NS_PER_MS - trace.end_to_end_ms) <= 0.0005
    assert not path or path[0].start == trace.start
    rows = {row.stage: row for row in trace.budget()}
    total = rows.pop("total")
    assert abs(sum(row.actual_ms for row in rows.values()) - total.actual_ms) < 0.01
    if total.actual_ms:
        assert abs(sum(row.share for row in rows.values()) - 1) < 1e-4


@settings(max_examples=400, deadline=None)
@given(scripts, options, paces)
def test_every_run_is_accounted_for(script, chosen, pace):
    async def main():
        model = ScriptedModel(script, ttft=pace[0], tpot=pace[1])
        return await traced(Agent(model="m", endpoint=model, tools=[look_up, send, shaky, plain], **chosen))

    trace = run_virtual(main())
    assert_every_stage_is_sound(trace)
    assert_path_is_the_run(trace)


@settings(max_examples=100, deadline=None)
@given(scripts.map(lambda script: [each for each in script if not isinstance(each, RawReply)]), options)
def test_on_the_critical_path_tools_that_ran_side_by_side_count_once(script, chosen):
    """No stage of the path lies beside another, so that a faster one would have shortened the run."""

    async def main():
        return await traced(Agent(model="m", endpoint=ScriptedModel(script), tools=[look_up, send, shaky], **chosen))

    trace = run_virtual(main())
    work = [stage for stage in trace.stages if stage.kind == "tool"]
    on_path = [stage for stage in trace.critical_path() if stage.kind == "tool"]
    assert lengths(on_path) <= lengths(work)
    if trace.end_to_end_ms:
        waiting = lengths(stage for stage in trace.critical_path() if stage.kind == "wait")
        assert waiting == 0  # while a call waited for a place, a tool was at work: that is what took the time


async def test_real_runs_are_accounted_for_within_one_percent():
    script = [
        say("One moment.", call("look_up", ms=8), call("look_up", ms=4), call("send", ms=2)),
        [call("look_up", ms=2), call("look_up", ms=2), call("plain", ms=1)],
        "There it is, all of it, in a few words.",
    ]
    async with (
        SimulatedService(script, ttft=0.005, tpot=0.001) as service,
        Agent(model="m", endpoint=service.url, tools=[look_up, send, plain], max_parallel=2) as agent,
    ):
        for _ in range(8):
            trace = (await agent.run("go")).trace
            assert_every_stage_is_sound(trace)
            owned = lengths(trace.critical_path()) / NS_PER_MS
            assert abs(owned - trace.end_to_end_ms) <= 0.01 * trace.end_to_end_ms
            assert sum(trace.critical_ms().values()) <= trace.end_to_end_ms * 1.0001
