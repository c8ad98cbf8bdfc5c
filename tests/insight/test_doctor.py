"""What the diagnosis says of runs, of few and of others' as well."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from functools import cache

import msgspec
import pytest
from msgspec.structs import replace

from hotloop.insight.doctor import Finding, diagnose, finding_lines
from hotloop.lab.faulty.cases import Planted
from hotloop.lab.faulty.planted import FAULTS
from hotloop.trace.ledger import CallFacts, Stage, TurnFacts, Usage
from hotloop.trace.record import Said, TraceRecord
from hotloop.units import NS_PER_MS

AREAS = ["whole", "model", "tools", "context", "network", "capacity"]


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Agents with faults warn of some of them."""
    caplog.set_level(logging.CRITICAL, "hotloop")


@cache
def records(*faults: str, seed: int = 5) -> list[TraceRecord]:
    return Planted("desk", seed, faults).play()


def rules(found: Sequence[Finding]) -> list[str]:
    return [finding.rule for finding in found]


def run(*turns: Sequence[tuple[str, int, int]], text: int = 100, source: str = "hotloop") -> TraceRecord:
    """A run whose replies take 100 ms each; of its calls the name, and when they begin and end after the reply."""
    at, stages, facts = 0, [], []
    for turn, calls in enumerate([*turns, ()]):
        stages += [_stage("prefill", at, at + 50, turn), _stage("decode", at + 50, at + 50 + text // 2, turn)]
        at += 50 + text // 2
        told = []
        for lane, (name, start, end) in enumerate(calls, 1):
            stages.append(_stage("tool", at + start, at + end, turn, lane, name))
            told.append(CallFacts(f"{turn}/{lane}", name, "ok", lane=lane))
        at += max((end for _, _, end in calls), default=0)
        facts.append(TurnFacts(turn, ttft=50 * NS_PER_MS, tools=[call.name for call in told], calls=told))
    return TraceRecord(trace_id="r1", source=source, start=0, end=at * NS_PER_MS, stages=stages, turns=facts)


def _stage(kind: str, start: int, end: int, turn: int, lane: int = 0, name: str = "") -> Stage:
    return Stage(kind, start * NS_PER_MS, end * NS_PER_MS, turn, lane, name)  # type: ignore[arg-type]


def test_of_no_runs_nothing_is_said() -> None:
    assert diagnose([]) == []


def test_a_finding_says_what_was_seen_what_it_costs_and_what_to_do() -> None:
    (found,) = diagnose(records("one by one"))
    assert (found.rule, found.area, found.hits, found.runs) == ("serial-turns", "tools", 12, 12)
    assert found.example.startswith("desk-5-")
    assert found.figures == {"turns": 3}
    assert 300 < found.costs.p50_ms <= found.costs.p95_ms < 600
    title, saw, costs, do = finding_lines(found)
    assert title == "tools: Calls that need nothing of each other are made one by one [serial-turns]"
    assert "north → south → east → west" in saw
    assert f"12 of 12 runs, such as {found.example}" in saw
    assert costs.endswith("% of all time")
    assert do.startswith("  do     Have the model write them in one reply")
    assert json.loads(json.dumps(found.to_dict()))["costs"]["p50_ms"] == found.costs.p50_ms


def test_what_costs_no_time_says_so() -> None:
    (found,) = diagnose(records("vain hedges"))
    assert finding_lines(found)[2] == "  costs  no time that can be told from the trace"


def test_findings_come_in_the_order_in_which_a_person_would_look() -> None:
    found = diagnose(records("blocked loop", "slow writing", "slow tool", "clock", "far away", "refused"))
    assert [finding.area for finding in found] == AREAS


@pytest.mark.parametrize(
    "fault", ["long chain", "slow writing", "slow tool", "one by one", "asked again", "long results", "far away"]
)
def test_one_run_is_enough_for_what_shows_in_one(fault: str) -> None:
    found = diagnose(records(fault)[-1:])
    assert FAULTS[fault].finds in rules(found)
    assert all((finding.hits, finding.runs) == (1, 1) for finding in found)


def test_what_one_of_many_runs_has_is_chance() -> None:
    healthy, odd = records(), records("flawed calls", seed=6)
    assert diagnose([*healthy, odd[0]]) == []
    assert rules(diagnose([*healthy, *odd[:2]])) == ["unparsable-calls"]


def test_the_prefix_is_said_to_be_broken_by_what_broke_it() -> None:
    clock, cache = diagnose(records("clock")), diagnose(records("full cache"))
    assert "It looks like a clock or a date." in clock[0].saw
    assert "nothing of what was sent has changed" in cache[0].saw


def test_what_a_record_does_not_tell_is_no_fault() -> None:
    def bare(record: TraceRecord) -> TraceRecord:
        turns = [TurnFacts(facts.turn, tools=facts.tools, calls=facts.calls) for facts in record.turns]
        plain = replace(record, turns=turns, attempts=[], facts={}, limits={}, tools={}, said={})
        return replace(plain, prompt=None, answer=None)

    for fault in FAULTS:
        found = diagnose(list(map(bare, records(fault))))
        assert set(rules(found)) <= Planted("desk", 5, (fault,)).expected | {"slow-tools"}, fault
    nothing = TraceRecord(trace_id="", start=0, end=0)
    assert diagnose([nothing]) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_others_are_advised_without_hotloops_settings(fault: str) -> None:
    found = diagnose([replace(record, source="pydantic-ai") for record in records(fault)])
    assert not [each for each in found if "hotloop" in each.do or "Agent(" in each.do or "Policy(" in each.do]


def test_a_record_that_was_kept_is_judged_as_it_was() -> None:
    made = records("flawed calls", "held back")
    kept = [msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=TraceRecord) for record in made]
    assert diagnose(kept) == diagnose(made)
    assert rules(diagnose(made)) == ["unparsable-calls", "buffered-stream"]


def test_calls_that_another_framework_made_one_after_the_other_are_seen() -> None:
    in_line = run([("a", 0, 200), ("b", 200, 400)], source="other")
    beside = run([("a", 0, 200), ("b", 0, 200)], source="other")
    assert "serial-calls" in rules(diagnose([in_line]))
    assert "serial-calls" not in rules(diagnose([beside]))
    assert "serial-calls" not in rules(
        diagnose([replace(in_line, source="hotloop")])
    )  # they began as they were written


@pytest.mark.parametrize(
    ("sources", "starts", "found"),
    [((), 0, True), (("0/1",), 0, False), (None, 0, False), ((), -20, False)],
)
def test_calls_in_turns_of_their_own_are_apart_if_they_need_nothing(
    sources: tuple[str, ...] | None, starts: int, found: bool
) -> None:
    """Unless they took something from the result before, or nobody knows, or one was made within the other."""
    told = run([("a", 0, 60)], [("b", starts, 60)])
    if starts < 0:  # a sub-agent's, whose reply came while the other call was at work
        longer = replace(told.stages[2], end=told.stages[5].end)
        told = replace(told, stages=[*told.stages[:2], longer, *told.stages[3:]])
    told = replace(told, said={"1/1": Said("d", sources=sources)})
    assert ("serial-turns" in rules(diagnose([told]))) is found


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (Said("d", result_digest="r"), True),
        (Said("d"), False),
        (Said(result_digest="r"), False),
        (Said(), False),
    ],
)
def test_calls_are_repeated_if_both_their_arguments_and_their_results_are_known(said: Said, found: bool) -> None:
    twice = replace(run([("a", 0, 400)], [("a", 0, 400)], source="other"), said={"0/1": said, "1/1": said})
    assert ("repeated-calls" in rules(diagnose([twice]))) is found
    once = [replace(run([("a", 0, 400)], source="other"), said={"0/1": said})] * 2
    assert ("repeated-calls" in rules(diagnose(once))) is found


def test_a_budget_says_what_is_too_long_for_tools() -> None:
    fine = run([("a", 0, 60)])
    assert diagnose([fine]) == []
    (found,) = diagnose([replace(fine, limits={"tools": 50 * NS_PER_MS})])
    assert (found.rule, found.costs.p50_ms) == ("slow-tools", 60)
    assert found.saw == "over their budget in 1 run; 23% of all time; a alone 60 ms"


@pytest.mark.parametrize(("took", "saw"), [(1_200, []), (9_000, ["30% of all time; a alone 9,000 ms"])])
def test_a_slow_tool_that_few_runs_have_is_found_if_it_is_much_of_all_time(took: int, saw: list[str]) -> None:
    found = diagnose([*[run([("a", 0, took)], text=2_000)] * 4, *[run([("b", 0, 20)], text=2_000)] * 36])
    assert [each.saw for each in found if each.rule == "slow-tools"] == saw


@pytest.mark.parametrize(("note", "found"), [("session committed", []), ("", ["loop-overhead"])])
def test_a_busy_disk_under_the_sessions_is_not_the_loops_own(note: str, found: list[str]) -> None:
    plain = run([("a", 0, 60)])
    kept = Stage("context", plain.end, plain.end + 150 * NS_PER_MS, 1, note=note)
    slow = replace(plain, end=kept.end, stages=[*plain.stages, kept])
    assert rules(diagnose([slow])) == found


def test_a_reply_that_was_not_streamed_tells_no_first_token() -> None:
    told = [run(text=2_000) for _ in range(4)]
    for record in told:
        record.turns = [replace(facts, usage=Usage(500, 100), ttft=None) for facts in record.turns]
        record.stages = [_stage("prefill", 0, 1_050, 0)]
    assert "slow-prefill" not in rules(diagnose(told))


@pytest.mark.parametrize(("failed", "found"), [(2, []), (3, ["failing-tools"]), (10, ["failing-tools"])])
def test_a_tool_that_fails_costs_its_failed_calls_and_the_turns_that_make_them_once_more(
    failed: int, found: list[str]
) -> None:
    runs = [run([("stock", 0, 60)], [("stock", 0, 40)]) for _ in range(10)]
    for each in runs[:failed]:
        each.turns[0].calls[0] = replace(each.turns[0].calls[0], outcome="error")
    told = [finding for finding in diagnose(runs) if finding.rule == "failing-tools"]
    assert rules(told) == found
    if failed == 10:
        assert told[0].saw == "50% of the calls of stock failed (10 of 20)"
        assert told[0].costs.p50_ms == 160  # the failed call, and the reply that made another one
