"""What holds for any run and any budget."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from budgeted import contents, degraded, ended
from hotloop import Agent, Budget, BudgetExceeded, Degrade, Model, Trace, tool
from hotloop.lab.script import per_conversation
from hotloop.testing import ScriptedModel, call
from hotloop.trace.measured import Measured
from hotloop.trace.record import TraceRecord

_STEP = 40  # ms that a step takes which cannot be cancelled
_LOOK = 1  # ms between two looks at a limit that is nearly used up


@tool
async def work(key: str, ms: int) -> str:
    """Takes its time."""
    await asyncio.sleep(ms / 1000)
    return f"{key} done"


@tool(read_only=True)
async def read(key: str, ms: int) -> str:
    """Takes its time, and may begin early."""
    await asyncio.sleep(ms / 1000)
    return f"{key} read"


@tool
async def clinging(key: str, ms: int) -> str:
    """Takes its time also to end."""
    try:
        await asyncio.sleep(ms / 1000)
    finally:
        await asyncio.sleep(_STEP / 1000)
    return f"{key} held"


@tool(read_only=True, optional=True)
async def extra(key: str, ms: int) -> str:
    """Nobody has to know it."""
    await asyncio.sleep(ms / 1000)
    return f"{key} known"


TOOLS = {each.name: each for each in (work, read, clinging, extra)}

times = st.integers(1, 60).map(lambda tens: tens * 10)
seconds = st.none() | st.integers(1, 1500).map(lambda ms: ms / 1000 + 0.0003)
limits = st.fixed_dictionaries(dict.fromkeys(("model", "tools", "network"), seconds))


def scripts(*names: str) -> st.SearchStrategy[list[list[tuple[str, int]]]]:
    return st.lists(st.lists(st.tuples(st.sampled_from(names), times), min_size=1, max_size=3), max_size=3)


def run(turns: list[list[tuple[str, int]]], budget: Budget | None, *, ttft: float, **options: Any) -> Any:
    """What a run came to, its trace, and its last request."""
    calls = [
        [call(name, key=f"{turn}{place}", ms=ms) for place, (name, ms) in enumerate(each)]
        for turn, each in enumerate(turns)
    ]
    model = ScriptedModel(per_conversation([*calls, "So it is, as far as I know."]), ttft=ttft, tpot=0.005)
    agent = Agent(model="m", endpoint=model, tools=list(TOOLS.values()), budget=budget, **options)
    output, trace = ended(agent)
    return output, trace, model.requests[-1]


def spent(trace: Trace) -> dict[str, float]:
    """What each row took, in milliseconds; of the turns, the longest."""
    record = TraceRecord(trace_id="", start=trace.start, end=trace.end, stages=trace.stages)
    return {row: took / 1e6 for row, took in Measured(record).rows.items()}


def limits_ms(budget: Budget) -> dict[str, float]:
    return {row: limit / 1e6 for row, limit in budget.limits().items()}


@settings(max_examples=70, deadline=None)
@given(scripts("work", "read", "clinging"), limits, limits, seconds, seconds, st.sampled_from([0.02, 0.2]))
def test_a_run_goes_over_a_limit_that_aborts_by_no_more_than_one_step_that_cannot_be_cancelled(
    turns, parts, of_turns, total, turn_total, ttft
):
    budget = Budget(**parts, turn=Budget(**of_turns), on_exceed="abort")
    if total and total > sum(limit or 0 for limit in parts.values()):
        budget = Budget(**parts, total=total, turn=Budget(**of_turns), on_exceed="abort")
    _, trace, _ = run(turns, budget, ttft=ttft)
    rows = spent(trace)
    for row, limit in limits_ms(budget).items():
        assert rows[row] <= limit + _STEP + _LOOK


@settings(max_examples=70, deadline=None)
@given(scripts("work"), limits, seconds, st.sampled_from([0.02, 0.2]))
def test_it_is_stopped_if_and_only_if_it_would_have_gone_over(turns, parts, turn_total, ttft):
    turn = None if turn_total is None else Budget(total=turn_total)
    budget = Budget(**parts, turn=turn, on_exceed="abort")
    _, free, _ = run(turns, None, ttft=ttft)
    output, trace, _ = run(turns, budget, ttft=ttft)
    over = [row for row, limit in limits_ms(budget).items() if spent(free)[row] > limit]
    if over:
        assert isinstance(output, BudgetExceeded) and output.row in over
        assert abs(spent(trace)[output.row] - output.limit * 1000) <= _LOOK
    else:
        assert output == "So it is, as far as I know."
        assert trace.end_to_end_ms == free.end_to_end_ms


@settings(max_examples=70, deadline=None)
@given(
    scripts("work", "read", "extra"),
    limits,
    seconds,
    st.lists(st.sampled_from(["fast", "short", "both"]), max_size=2),
    st.sampled_from([0.02, 0.2]),
)
def test_a_run_that_saves_time_loses_no_result_that_was_there(turns, parts, turn_total, steps, ttft):
    fast = Model(name="fast", endpoint=ScriptedModel(lambda request: "Quick.", ttft=0.001))
    kinds = {
        "fast": Degrade(model=fast),
        "short": Degrade(max_tokens=2),
        "both": Degrade(model=fast, max_tokens=2),
    }
    turn = None if turn_total is None else Budget(total=turn_total)
    budget = Budget(**parts, turn=turn, on_exceed="degrade", degrade=[kinds[step] for step in steps])
    free_output, _, asked_free = run(turns, None, ttft=ttft)
    output, trace, asked = run(turns, budget, ttft=ttft)
    assert output in (free_output, "Quick.", "So it")
    assert output == free_output or degraded(trace)
    whole, told = contents(asked_free, "tool"), contents(asked, "tool")
    flat = [name for each in turns for name, _ in each]
    for name, was, now in zip(flat, whole, told, strict=False):
        assert now == was or (name == "extra" and "error" in now)
