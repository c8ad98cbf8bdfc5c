"""The report: rows of the budget over one run and many, waits and their grades, and what was done to save time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from budgeted import agent_of, ended
from hotloop import Budget, Degrade, Trace, tool
from hotloop.insight.report import first_feedback, grade, report, report_dict, report_lines
from hotloop.testing import call
from hotloop.trace.ledger import AttemptFacts, Stage, TurnFacts
from hotloop.trace.record import TraceRecord

MS = 1_000_000
ONE = [call("look", key="a"), "Yes it is."]


def record(model: int, tools: int = 0, **options: Any) -> TraceRecord:
    """A run of so many milliseconds in each of two stages."""
    stages = [Stage("prefill", 0, model * MS, 0), Stage("tool", model * MS, (model + tools) * MS, 0, 1, "look")]
    return TraceRecord(**{"trace_id": "t", "start": 0, "end": (model + tools) * MS, "stages": stages, **options})


def recorded(script: Any, budget: Budget | None, **options: Any) -> TraceRecord:
    """The record of a run in virtual time."""
    output, trace = ended(agent_of(script, budget, **options))
    return as_record(trace, budget, "" if isinstance(output, str) else type(output).__name__)


def as_record(trace: Trace, budget: Budget | None, error: str) -> TraceRecord:
    return TraceRecord(
        trace_id=trace.trace_id,
        start=trace.start,
        end=trace.end,
        stages=trace.stages,
        turns=trace.turns,
        attempts=trace.attempts,
        facts=trace.facts,
        limits=budget.limits() if budget else {},
        outcome="failed" if error else "ok",
        error=error,
    )


def rows(found: Any) -> dict[str, tuple[Any, ...]]:
    return {
        line.stage: (line.acceptable, line.p50, line.over, line.verdict, round(line.share, 3)) for line in found.lines
    }


def test_one_run_is_held_against_its_budget_row_by_row():
    found = report([recorded(ONE, Budget(total=0.6, model=0.2, tools=0.3, turn=Budget(tools=0.1, total=0.5)))])
    assert rows(found) == {
        "model": (200, 250, 1, "over", 0.455),
        "tools": (300, 300, 0, "ok", 0.545),
        "memory": (None, 0, 0, "-", 0),
        "network": (None, 0, 0, "-", 0),
        "other": (None, 0, 0, "-", 0),
        "total": (600, 550, 0, "ok", 1),
        "turn.tools": (100, 300, 1, "over", 0.545),
        "turn.total": (500, 430, 0, "ok", 0.782),
    }


def test_the_rows_are_those_of_the_trace():
    budget = Budget(total=0.6, model=0.2)
    _, trace = ended(agent_of(ONE, budget))
    of_trace = {row.stage: (row.actual_ms, row.verdict) for row in trace.budget()}
    verdicts = {line.stage: (line.p50, line.verdict) for line in report([as_record(trace, budget, "")]).lines}
    assert {stage: actual for stage, (actual, _) in verdicts.items()} == {
        s: actual for s, (actual, _) in of_trace.items()
    }
    assert verdicts["model"] == (250, "over")


def test_of_many_runs_there_are_percentiles_and_how_many_went_over():
    limits = {"tools": 90 * MS, "model": 10 * MS, "total": 500 * MS}
    found = report([record(20, tools, limits=limits) for tools in range(1, 101)])
    lines = {line.stage: line for line in found.lines}
    assert (lines["tools"].p50, lines["tools"].p95, lines["tools"].over, lines["tools"].verdict) == (
        50,
        95,
        10,
        "at times",
    )
    assert (lines["model"].over, lines["model"].verdict) == (100, "over")
    assert (lines["total"].over, lines["total"].verdict) == (0, "ok")
    assert lines["tools"].share == pytest.approx(5050 / 7050)


def test_each_run_is_held_against_its_own_limit_and_the_newest_is_shown():
    old = record(50, limits={"model": 40 * MS}, started=1.0)
    new = record(50, limits={"model": 60 * MS}, started=2.0)
    for order in ([old, new], [new, old]):
        line = next(line for line in report(order).lines if line.stage == "model")
        assert (line.acceptable, line.over, line.verdict) == (60, 1, "over")


@pytest.mark.parametrize(
    ("wait", "name"),
    [
        (0, "instant"),
        (100, "instant"),
        (100.1, "quick"),
        (300, "quick"),
        (1000, "fluent"),
        (3000, "slow"),
        (3001, "lost"),
    ],
)
def test_waits_are_graded_by_what_they_do_to_a_person(wait, name):
    assert grade(wait) == name


@tool(status="Looking up {key}")
async def shown(key: str) -> str:
    """Says what it does."""
    return key


@pytest.mark.parametrize(
    ("script", "options", "ms"),
    [
        (["Yes it is."], {}, 100),  # its first token
        (ONE, {}, 530),
        ([call("shown", key="a"), "Yes."], {"tools": [shown]}, 130),  # the status of the tool
        (["Yes it is."], {"stream": False}, 120),  # all of it at once
        ([call("look", key="a", ms=1), "Yes it is."], {"tpot": 0.0}, 201),
    ],
)
def test_the_first_feedback_is_the_first_text_or_status(script, options, ms):
    kept = recorded(script, None, **options)
    assert first_feedback(kept) == ms
    found = report([kept])
    assert found.feedback is not None and found.answer is not None
    assert (found.feedback.p50, found.feedback.grade) == (ms, grade(ms))
    assert found.answer.p50 == kept.end / MS - kept.start / MS


def test_text_before_calls_is_feedback_too():
    from hotloop.testing import say

    assert first_feedback(recorded([say("Let me see.", call("shown", key="a")), "Yes."], None, tools=[shown])) == 100


def test_of_a_run_from_elsewhere_it_is_the_first_token_of_the_reply_that_answers():
    attempts = [
        AttemptFacts(0, "s", "m", "first", 0, 50 * MS, "ok", first=10 * MS),
        AttemptFacts(1, "s", "m", "first", 60 * MS, 120 * MS, "ok", first=80 * MS),
    ]
    turns = [TurnFacts(0, tools=["look"]), TurnFacts(1)]
    assert first_feedback(record(120, attempts=attempts, turns=turns)) == 80
    assert first_feedback(record(120)) == 120
    assert first_feedback(record(120, outcome="failed")) is None


def test_what_was_done_to_save_time_and_what_was_stopped_is_counted_by_runs():
    script = [call("look", key="a"), call("reviews", key="a"), call("reviews", key="b"), "Yes."]
    hurried = recorded(script, Budget(tools=0.2, on_exceed="degrade", degrade=[Degrade(max_tokens=50)]))
    stopped = recorded(ONE, Budget(tools=0.2, on_exceed="abort"))
    found = report([hurried, stopped, record(10)])
    assert (found.runs, found.stopped) == (3, 1)
    assert found.degraded == {"replies have at most 50 tokens": 1, "reviews was left out": 1}
    assert found.answer is not None and found.answer.runs == 2


def test_one_run_for_a_person():
    found = report([recorded(ONE, Budget(total=0.5, model=0.3, on_exceed="degrade", degrade=[Degrade(max_tokens=9)]))])
    assert "\n".join(report_lines(found)) == (
        "stage    acceptable   actual  verdict   share\n"
        "───────  ──────────  ───────  ───────  ──────\n"
        "model        300 ms   250 ms  ok        45.5%\n"
        "tools             -   300 ms  -         54.5%\n"
        "memory            -  0.00 ms  -          0.0%\n"
        "network           -  0.00 ms  -          0.0%\n"
        "other             -  0.00 ms  -          0.0%\n"
        "───────  ──────────  ───────  ───────  ──────\n"
        "total        500 ms   550 ms  over     100.0%\n"
        "\n"
        "first feedback  530 ms · fluent\n"
        "answer          550 ms · fluent\n"
        "degraded: replies have at most 9 tokens (1 of 1 run)"
    )


def test_many_runs_for_a_person():
    limits = {"total": 100 * MS}
    stopped = record(10, outcome="failed", error="BudgetExceeded", limits=limits)
    runs = [*[record(20, tools, limits=limits) for tools in range(1, 100)], stopped]
    lines = report_lines(report(runs))
    assert lines[0] == "stage    acceptable      p50      p95  over  verdict    share"
    assert lines[-5] == "total        100 ms    69 ms   114 ms    19  at times  100.0%"
    assert lines[-3:] == [
        "first feedback  p50 70 ms · instant, p95 115 ms · quick (99 runs)",
        "answer          p50 70 ms · instant, p95 115 ms · quick (99 runs)",
        "stopped by the budget: 1 of 100 runs",
    ]


def test_it_is_json_too():
    told = json.loads(json.dumps(report_dict(report([record(20, 30)]))))
    assert told["lines"][0] == {
        "stage": "model",
        "acceptable": None,
        "p50": 20.0,
        "p95": 20.0,
        "over": 0,
        "verdict": "-",
        "share": 0.4,
    }
    assert told["answer"] == {"runs": 1, "p50": 50.0, "p95": 50.0, "grade": "instant", "grade_p95": "instant"}


def test_there_is_no_report_of_no_run():
    with pytest.raises(ValueError, match="no run"):
        report([])
