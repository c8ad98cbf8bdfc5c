"""What is read from a ledger: the critical path, the turns, the budget held against them, and all of it as JSON."""

import json
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop import Agent, Budget, Trace, Usage, tool
from hotloop.testing import ScriptedModel, call, raw, run_virtual, say
from hotloop.trace.ledger import Ledger, Stage
from hotloop.units import NS_PER_MS

START = 7_000_000_000


def trace_of(*stages: tuple, end: float, budget: Budget | None = None) -> Trace:
    """A trace of stages (kind, start ms, end ms, lane, name)."""
    ledger = Ledger(lambda: START, "req-1", started=1_736_244_000.0)
    for kind, start, stop, *where in stages:
        lane, name = [*where, 0, ""][:2] if len(where) != 1 else (where[0], "")
        ledger.stages.append(Stage(kind, START + ns(start), START + ns(stop), 0, lane, name))
    ledger.end = START + ns(end)
    return Trace(ledger, budget.limits() if budget else None)


def ns(ms: float) -> int:
    return round(ms * NS_PER_MS)


def path(trace: Trace) -> list[tuple]:
    return [
        (stage.kind, stage.name, (stage.start - START) / NS_PER_MS, (stage.end - START) / NS_PER_MS)
        for stage in trace.critical_path()
    ]


# The critical path


def test_of_parallel_tools_the_last_to_end_is_on_the_path():
    trace = trace_of(
        ("prefill", 0, 50),
        ("tool", 50, 90, 1, "fast"),
        ("tool", 50, 250, 2, "slow"),
        ("overhead", 250, 251),
        end=251,
    )
    assert path(trace) == [("prefill", "", 0, 50), ("tool", "slow", 50, 250), ("overhead", "", 250, 251)]


def test_a_tool_that_waited_for_a_place_waited_for_the_one_that_gave_it_up():
    """Two places: `c` began when `a` ended. `b` ran on beside it, and a faster `b` would not have helped."""
    trace = trace_of(
        ("tool", 0, 100, 1, "a"),
        ("tool", 0, 250, 2, "b"),
        ("wait", 0, 100.02, 3, "c"),
        ("overhead", 100.02, 100.03, 3),
        ("tool", 100.03, 300, 3, "c"),
        ("overhead", 300, 301),
        end=301,
    )
    assert path(trace) == [
        ("tool", "a", 0, 100),
        ("wait", "c", 100, 100.02),
        ("overhead", "", 100.02, 100.03),
        ("tool", "c", 100.03, 300),
        ("overhead", "", 300, 301),
    ]


def test_one_place_is_one_tool_after_the_other():
    trace = trace_of(
        ("tool", 0, 100, 1, "a"),
        ("wait", 0, 100.01, 2, "b"),
        ("tool", 100.01, 200, 2, "b"),
        ("wait", 0, 200.01, 3, "c"),
        ("tool", 200.01, 300, 3, "c"),
        end=300,
    )
    assert trace.critical_ms() == {"tool": 299.98, "wait": 0.02}


def test_who_joined_an_identical_call_waited_for_it():
    trace = trace_of(
        ("overhead", 0, 0.01, 1),
        ("tool", 0.01, 80, 1, "a"),
        ("wait", 0, 80.03, 2, "a"),
        ("overhead", 80.03, 81),
        end=81,
    )
    assert trace.critical_ms() == {"tool": 79.99, "overhead": 0.98, "wait": 0.03}


def test_a_tool_that_began_during_the_reply_follows_the_part_before_it():
    """Sealed at 60 ms, while the model wrote on until 90."""
    trace = trace_of(("prefill", 0, 40), ("decode", 40, 90), ("tool", 60, 200, 1, "a"), end=200)
    assert path(trace) == [("prefill", "", 0, 40), ("decode", "", 40, 60), ("tool", "a", 60, 200)]


def test_what_no_stage_owns_is_unattributed():
    trace = trace_of(("prefill", 0, 40), ("tool", 60, 100, 1, "a"), end=105)
    assert path(trace) == [("prefill", "", 0, 40), ("tool", "a", 60, 100)]
    assert trace.unattributed_ms == 25


def test_a_run_in_which_nothing_happened():
    trace = trace_of(end=0)
    assert (trace.critical_path(), trace.critical_ms(), trace.end_to_end_ms, trace.unattributed_ms) == ([], {}, 0, 0)
    assert [row.share for row in trace.budget()] == [0.0] * 6
    assert trace.usage == Usage()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["prefill", "tool", "wait", "overhead", "cache"]),
            st.integers(0, 20),
            st.integers(0, 20),
            st.integers(0, 3),
        ).map(lambda stage: (stage[0], min(stage[1:3]), max(stage[1:3]), stage[3], "n")),
        max_size=12,
    )
)
def test_a_path_through_any_stages_never_counts_a_moment_twice_and_leaves_none_out(stages):
    """Also where stages lie across one another, as in traces from elsewhere."""
    trace = trace_of(*stages, end=20)
    steps = trace.critical_path()
    assert all(one.end <= other.start for one, other in pairwise(steps))
    assert all(step.start < step.end for step in steps)
    covered = {at for _, start, stop, *_ in stages for at in range(start, stop)}
    owned = {at for step in steps for at in range((step.start - START) // NS_PER_MS, (step.end - START) // NS_PER_MS)}
    assert owned == covered
    assert trace.unattributed_ms == 20 - len(covered)
    critical = [stage for stage in trace.to_dict()["stages"] if stage["critical"]]
    assert len(critical) <= len(steps)
    assert bool(critical) == bool(steps)


# The budget


def rows(trace: Trace) -> dict[str, tuple]:
    return {row.stage: (row.acceptable_ms, row.actual_ms, row.verdict, round(row.share, 4)) for row in trace.budget()}


def test_the_budget_holds_each_part_against_its_limit():
    budget = Budget(total=0.5, model=0.2, tools=0.1, memory=0.05)
    trace = trace_of(
        ("context", 0, 10),
        ("connect", 10, 30),
        ("prefill", 30, 80),
        ("decode", 80, 180),
        ("queue", 180, 200),
        ("guard", 200, 210, 1),
        ("tool", 210, 390, 1, "a"),
        ("parse", 390, 400),
        end=400,
        budget=budget,
    )
    assert rows(trace) == {
        "model": (200, 170, "ok", 0.425),
        "tools": (100, 190, "over", 0.475),
        "memory": (50, 0, "ok", 0),
        "network": (None, 20, "-", 0.05),
        "other": (None, 20, "-", 0.05),
        "total": (500, 400, "ok", 1),
    }


def test_a_part_that_takes_exactly_its_limit_is_within_it():
    trace = trace_of(("prefill", 0, 0.1), ("decode", 0.1, 0.3), end=0.3, budget=Budget(total=0.0003, model=0.0003))
    assert (rows(trace)["model"][2], rows(trace)["total"][2]) == ("ok", "ok")


def test_a_nanosecond_more_is_over():
    trace = trace_of(("prefill", 0, 300.000001), end=300.000001, budget=Budget(total=0.3, model=0.3))
    assert (rows(trace)["model"][2], rows(trace)["total"][2]) == ("over", "over")


# Turns


async def run(script, *tools, ttft=0.0, tpot=0.0, **options):
    agent = Agent(model="m", endpoint=ScriptedModel(script, ttft=ttft, tpot=tpot), tools=tools, **options)
    return await agent.run("go", trace_id="req-1")


def turn_of(script, **options):
    return run_virtual(run([script], **options)).trace.turns[0]


def words(count: int) -> str:
    return " ".join(["word"] * count)


def test_ttft_and_tpot_by_formula():
    turn = turn_of(words(96), ttft=0.058, tpot=0.021)
    assert (turn.ttft, turn.tpot, turn.usage.output_tokens, turn.buffered) == (58_000_000, 21_000_000, 96, False)


def test_tpot_spreads_the_time_over_the_tokens_the_service_counts():
    """Tokens may arrive several in a chunk: 96 tokens, 20 chunks, 19 gaps of 10 ms."""
    usage = {"prompt_tokens": 1240, "completion_tokens": 96}
    turn = turn_of(say(words(20), usage=usage), ttft=0.05, tpot=0.01)
    assert turn.tpot == 190_000_000 // 95
    assert (turn.usage.input_tokens, turn.usage.output_tokens) == (1240, 96)


def chunk(**delta) -> bytes:
    return b'data: {"choices":[{"index":0,"delta":%b}]}\n\n' % json.dumps(delta).encode()


FINISH = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def test_reasoning_is_output_and_its_first_token_is_the_first():
    pieces = [chunk(role="assistant", content=""), *[chunk(reasoning="hm")] * 3, *[chunk(content="so")] * 2, FINISH]
    turn = turn_of(raw(*pieces), ttft=0.05, tpot=0.01)
    assert turn.ttft == 60_000_000
    assert turn.tpot == 10_000_000


def test_reasoning_tokens_are_counted_by_the_service():
    details = {"completion_tokens_details": {"reasoning_tokens": 64}, "prompt_tokens_details": {"cached_tokens": 1024}}
    usage = {"prompt_tokens": 1240, "completion_tokens": 96, **details}
    result = run_virtual(run([say(words(5), usage=usage)]))
    assert result.usage == Usage(input_tokens=1240, output_tokens=96, cached_tokens=1024, reasoning_tokens=64)


def test_all_tokens_in_one_instant_are_called_buffered_and_have_no_tpot():
    turn = turn_of(words(50), ttft=0.5)
    assert (turn.buffered, turn.tpot, turn.ttft) == (True, None, 500_000_000)


def test_a_reply_that_was_not_to_be_streamed_is_not_called_buffered():
    turn = turn_of(words(50), ttft=0.5, tpot=0.01, stream=False)
    assert (turn.buffered, turn.tpot) == (False, None)


def test_one_token_has_no_tpot():
    turn = turn_of("Yes", ttft=0.05, tpot=0.01)
    assert (turn.buffered, turn.tpot) == (False, None)


def test_usage_is_the_sum_of_the_turns_and_unknown_is_not_zero():
    script = [
        say("", call("nothing"), usage={"prompt_tokens": 10, "completion_tokens": 4}),
        say("Done.", usage={"prompt_tokens": 30}),
    ]
    assert run_virtual(run(script)).usage == Usage(input_tokens=40, output_tokens=4)


# JSON


@tool(read_only=True)
async def look_up(key: str) -> str:
    return key


def test_to_dict_has_everything_in_milliseconds_and_is_json():
    script = [[call("look_up", key="a"), call("look_up", key="b")], words(5)]
    result = run_virtual(run(script, look_up, ttft=0.02, tpot=0.001, name="orders", budget=Budget(total=1.0)))
    shown = result.trace.to_dict()
    assert json.loads(msgspec.json.encode(shown)) == json.loads(json.dumps(shown))
    assert {"trace_id", "end_to_end_ms", "unattributed_ms", "turns", "stages"} <= set(shown)
    assert (shown["trace_id"], shown["agent"], shown["unattributed_ms"]) == ("req-1", "orders", 0)
    assert shown["end_to_end_ms"] == result.trace.end_to_end_ms
    first, last = shown["turns"]
    assert (first["turn"], first["ttft_ms"], first["tools"], first["attempts"]) == (0, 20, ["look_up", "look_up"], 1)
    assert (last["turn"], last["tpot_ms"], last["finish_reason"], last["output_tokens"]) == (1, 1, "stop", 5)
    assert (last["gap_ms"], [call["sealed_ms"] for call in first["calls"]]) == (1, [3, 0])
    assert not {"gap", "sealed", "head_start", "waited", "saved"} & {*last, *first["calls"][0]}
    assert {key for turn in shown["turns"] for key in turn if key.endswith("_ns")} == set()
    assert all(stage["start_ms"] >= 0 and stage["ms"] >= 0 for stage in shown["stages"])
    assert [row["stage"] for row in shown["budget"]] == ["model", "tools", "memory", "network", "other", "total"]
    assert shown["max_parallel"] == 8


def test_stages_on_the_path_are_marked_even_if_only_a_part_of_them_is():
    trace = trace_of(
        ("prefill", 0, 40),
        ("decode", 40, 90),
        ("tool", 50, 55, 1, "a"),
        ("tool", 60, 200, 2, "b"),
        ("wait", 0, 200.01, 3, "c"),
        ("tool", 200.01, 210, 3, "c"),
        end=210,
    )
    marked = [(stage["kind"], stage.get("name")) for stage in trace.to_dict()["stages"] if stage["critical"]]
    assert marked == [("prefill", None), ("decode", None), ("tool", "b"), ("wait", "c"), ("tool", "c")]


@pytest.mark.parametrize("started", [0.0, 1_736_244_000.123])
def test_when_it_began_is_told_with_its_time_zone(started):
    trace = Trace(Ledger(lambda: START, "req-1", started=started))
    assert trace.started.timestamp() == started
    assert trace.to_dict()["started"][-6] in "+-"
