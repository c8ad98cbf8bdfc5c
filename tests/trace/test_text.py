"""A trace on a terminal: never wider than asked, nothing lost, and times at the right place."""

import asyncio
import re
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop import Agent, Budget, HotloopError, Trace, tool
from hotloop.testing import ScriptedModel, call, raw, run_virtual
from hotloop.trace.ledger import Ledger, Stage, TurnFacts, Usage
from hotloop.trace.text import budget_table, cache_line, timeline
from hotloop.units import NS_PER_MS

START = 7_000_000_000
BARS = "▏▎▍▌▋▊▉█▐"


def columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def trace_of(*stages: tuple, end: float, trace_id: str = "req-0123456789ab") -> Trace:
    """A trace of stages (kind, start ms, end ms, turn, lane, name)."""
    ledger = Ledger(lambda: START, trace_id)
    for kind, start, stop, turn, lane, name in stages:
        ledger.stages.append(Stage(kind, START + ns(start), START + ns(stop), turn, lane, name))
    ledger.turns = [TurnFacts(turn) for turn in sorted({stage[3] for stage in stages})]
    ledger.end = START + ns(end)
    return Trace(ledger)


def ns(ms: float) -> int:
    return round(ms * NS_PER_MS)


@tool
async def look_up(ms: int) -> str:
    await asyncio.sleep(ms / 1000)
    return "found"


def run(script, *, ttft=0.02, tpot=0.001, **options) -> Trace:
    async def main():
        model = ScriptedModel(script, ttft=ttft, tpot=tpot)
        try:
            return (
                await Agent(model="m", endpoint=model, **({"tools": [look_up]} | options)).run("go", trace_id="req-1")
            ).trace
        except HotloopError as error:
            return error.trace

    return run_virtual(main())


TWO_TOOLS = [[call("look_up", ms=40), call("look_up", ms=20)], "It is done now."]


def test_a_run_as_a_person_reads_it():
    shown = timeline(run(TWO_TOOLS), width=72)
    assert shown == (
        "req-1 · 90 ms end to end · 2 turns\n"
        "turn 0  first token    ████████                                    20 ms\n"
        "        calls                  ██▊                               7.00 ms\n"
        "        look_up                  ▐███████████████▊                 40 ms\n"
        "        look_up                  ▐███████▊                         20 ms\n"
        "turn 1  first token                              ▐███████▊         20 ms\n"
        "        text                                             ▐█      3.00 ms\n"
        "        hotloop itself                                           0.00 ms"
    )


def test_what_is_left_for_the_loop_is_never_less_than_nothing():
    """Three stages of 1.0005 ms, each rounded up by itself."""
    ends = [1.0005 * number for number in range(4)]
    stages = [("decode", start, end, turn, 0, "") for turn, (start, end) in enumerate(pairwise(ends))]
    assert timeline(trace_of(*stages, end=ends[-1])).splitlines()[-1].split() == ["hotloop", "itself", "0.00", "ms"]


# Width

NAMES = st.text(st.sampled_from("abz_查询订单状态物流信息"), min_size=1, max_size=64)
STAGES = st.lists(
    st.tuples(
        st.sampled_from(["prefill", "decode", "tool", "wait", "cache", "queue", "connect", "guard", "approval"]),
        st.floats(0, 1000),
        st.floats(0, 1000),
        st.integers(0, 12),
        st.integers(0, 40),
        NAMES,
    ).map(lambda stage: (stage[0], min(stage[1:3]), max(stage[1:3]), *stage[3:])),
    max_size=30,
)


@given(STAGES, st.floats(0, 2000), st.sampled_from([60, 80, 120]))
def test_no_line_is_wider_than_asked(stages, end, width):
    trace = trace_of(*stages, end=max([end, *(stage[2] for stage in stages)]))
    lines = timeline(trace, width).split("\n")
    assert max(map(columns, lines)) <= width
    assert max(map(columns, budget_table(trace).split("\n"))) <= 60


@pytest.mark.parametrize("width", [60, 80, 120])
def test_forty_parallel_tools_have_forty_lines(width):
    trace = run([[call("look_up", ms=5 * number) for number in range(40)], "Done."], max_parallel=40)
    lines = timeline(trace, width).split("\n")
    assert sum("look_up" in line for line in lines) == 40
    assert max(map(columns, lines)) <= width


@pytest.mark.parametrize("width", [60, 80, 120])
def test_columns_line_up_under_chinese_names(width):
    trace = trace_of(
        ("tool", 0, 50, 0, 1, "查询订单状态"), ("tool", 0, 50, 0, 2, "look_up"), ("tool", 0, 50, 0, 3, "物流"), end=100
    )
    lines = [line for line in timeline(trace, width).split("\n") if line.endswith(" 50 ms")][:3]
    assert len(lines) == 3
    assert len({columns(line[: line.index("█")]) for line in lines}) == 1
    assert len({columns(line) for line in lines}) == 1


def test_a_long_id_does_not_break_the_width():
    assert max(map(columns, timeline(trace_of(end=1, trace_id="x" * 100), 60).split("\n"))) <= 60


# Bars


def bar_lines(trace: Trace, width: int) -> list[str]:
    return timeline(trace, width).split("\n")[1:-1]


@given(st.floats(0, 1000), st.floats(0, 1000), st.sampled_from([60, 80, 120]))
def test_every_tool_leaves_a_mark_at_its_place(one, other, width):
    """Even a tool that took no time, at the very end of the run."""
    start, end = min(one, other), max(one, other)
    total = 1000.0
    bars = bar_lines(trace_of(("tool", 0, total, 0, 1, "whole"), ("tool", start, end, 0, 2, "part"), end=total), width)
    whole, part = (next(line for line in bars if name in line) for name in ("whole", "part"))
    left, right = whole.index("█"), whole.rindex("█") + 1
    marks = [at for at, char in enumerate(part) if char in BARS]
    assert marks
    assert left <= marks[0] <= marks[-1] < right
    per_column = total / (right - left)
    assert abs(marks[0] - left - start / per_column) <= 1.01
    assert abs(marks[-1] + 1 - left - end / per_column) <= 1.01 or len(marks) == 1


def test_a_run_of_no_length_can_be_shown():
    assert "0.00 ms end to end" in timeline(trace_of(end=0))
    assert "look_up" in timeline(trace_of(("tool", 0, 0, 0, 1, "look_up"), end=0))
    assert "total" in budget_table(trace_of(end=0))
    assert str(trace_of(end=0))


def test_failed_cached_waiting_and_refused_calls_say_so():
    shown = timeline(
        run([[call("look_up", ms=300), call("look_up", ms=20)], TWO_TOOLS[1]], tool_timeout=0.1, max_parallel=1)
    )
    assert "look_up (failed)" in shown
    assert "look_up (wait)" in shown
    kept = tool(look_up.function, read_only=True, ttl=60.0)
    shown = timeline(run([call("look_up", ms=300), call("look_up", ms=300), "Done."], tools=[kept]))
    assert shown.count("look_up") == 1  # the second came from the cache and took no time


def test_a_run_that_failed_shows_how_far_it_came():
    refused = raw(b'{"error":{"message":"no such model"}}', status=400)
    shown = timeline(run([call("look_up", ms=40), refused]))
    assert "look_up" in shown
    assert "first token" in shown
    assert str(run([refused]))


def test_what_hotloop_took_itself_is_what_no_other_stage_did():
    trace = trace_of(
        ("prefill", 0, 50, 0, 0, ""), ("tool", 50, 90, 0, 1, "a"), ("overhead", 90, 100, 0, 0, ""), end=100
    )
    last = timeline(trace).split("\n")[-1]
    assert last.split() == ["hotloop", "itself", "10", "ms"]


# Beside the timeline


def test_cached_tokens_of_each_turn_that_has_some_to_tell():
    trace = trace_of(("prefill", 0, 50, 0, 0, ""), ("prefill", 50, 90, 1, 0, ""), ("prefill", 90, 99, 2, 0, ""), end=99)
    assert cache_line(trace) == ""
    for facts, cached in zip(trace.turns, (0, 1232, None), strict=True):
        facts.usage = Usage(input_tokens=1291, cached_tokens=cached)
    assert cache_line(trace) == "cached tokens: 0 of 1,291 in turn 0, 1,232 of 1,291 in turn 1"
    assert cache_line(trace) in str(trace)


def test_warnings_are_told():
    trace = trace_of(("prefill", 0, 50, 0, 0, ""), end=50)
    trace.facts["warnings"] = ["The prompts diverge\x1b at byte 7.", "None of it was cached."]
    assert "\nwarning: The prompts diverge\\u001b at byte 7.\nwarning: None of it was cached.\n" in str(trace)


# The budget


def test_the_table_has_stage_acceptable_actual_verdict_and_share():
    budget = Budget(total=0.2, model=0.06, tools=0.03)
    lines = budget_table(run(TWO_TOOLS, budget=budget)).split("\n")
    assert lines[0].split() == ["stage", "acceptable", "actual", "verdict", "share"]
    cells = {line.split("  ")[0].strip(): re.split(r"\s{2,}", line.strip()) for line in lines}
    assert cells["model"][1:3] == ["60 ms", "50 ms"]
    assert (cells["model"][3], cells["tools"][3], cells["memory"][3], cells["total"][3]) == ("ok", "over", "-", "ok")
    shares = {name: float(cells[name][4].rstrip("%")) for name in ("model", "tools", "memory", "network", "other")}
    assert abs(sum(shares.values()) - 100) < 0.3
    assert cells["total"][4] == "100.0%"
    assert lines[-1] == "unattributed 0.00 ms (0.00%)"


def test_printing_a_trace_shows_timeline_and_budget():
    trace = run(TWO_TOOLS)
    told = "tools: 20 ms of 60 ms beside something else"
    assert str(trace) == f"{timeline(trace)}\n{told}\n\n{budget_table(trace)}"
