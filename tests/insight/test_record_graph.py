"""A record becomes a graph: scheduled as it is, it gives the recorded times, whatever was recorded."""

import asyncio
import random
from pathlib import Path

import pytest
from lab_runs import Kept, calls_of, in_ms, made_tool, run_of_two, runs_of

from hotloop import Agent
from hotloop.insight.critical import path_of, slack_of
from hotloop.insight.graph import Graph
from hotloop.insight.pieces import Ask
from hotloop.insight.schedule import schedule
from hotloop.testing import ScriptedModel, SimulatedTransport, call, raw, run_virtual, say
from hotloop.trace.importing.files import read_otlp
from hotloop.trace.ledger import CallFacts, Stage, TurnFacts
from hotloop.trace.record import TraceRecord
from hotloop.trace.recording.recorder import recorder
from hotloop.trace.trace import Trace
from hotloop.units import NS_PER_MS

SAMPLES = sorted((Path(__file__).parents[1] / "data" / "otel").glob("*.jsonl*"))
START = 5_000_000_000


def tool_times(record: TraceRecord) -> set[tuple[str, int, int]]:
    return {
        (s.name, s.start - record.start, s.end - record.start) for s in record.stages if s.kind == "tool" and s.lane
    }


def scheduled_tools(record: TraceRecord) -> set[tuple[str, int, int]]:
    return {(node.name, node.start, node.end) for node in schedule(Graph.of(record)).nodes if node.kind == "tool"}


# Records that were made up: what a scheduler gives must be what was recorded


def made_up(seed: int, source: str) -> TraceRecord:
    """Turns of random length: requests, some of which fail, calls that begin early or late, wait, and hold places."""
    draw = random.Random(seed)
    at, stages, turns = START, [], []

    def step(kind: str, turn: int, most: int = 20, note: str = "") -> None:
        nonlocal at
        took = draw.randrange(most)
        stages.append(Stage(kind, at, at + took, turn, 0, "", note))
        at += took

    for turn in range(draw.randint(1, 4)):
        at += draw.choice([0, 0, 3])
        step("context", turn)
        for _ in range(draw.choice([0, 0, 1])):
            step("connect", turn)
            step("prefill", turn)
            step("queue", turn, note="retry after ServiceError")
        step("connect", turn)
        step("prefill", turn, 100)
        first = at
        step("decode", turn, 100)
        step("parse", turn, 3)
        reply, calls, ended = at, [], at
        for lane in range(1, draw.randint(1, 5)):
            now = draw.randint(first, reply) if draw.random() < 0.4 else reply
            sealed = max(reply - now, 0)
            for kind, note in (("wait", "for other"), ("overhead", ""), ("tool", ""), ("context", "cut")):
                if kind in ("overhead", "tool") or draw.random() < 0.2:
                    took = draw.randrange(1, 60)
                    stages.append(Stage(kind, now, now + took, turn, lane, f"tool{lane}", note))
                    now += took
            needs = tuple(f"c{other}" for other in range(1, lane) if draw.random() < 0.1)
            calls.append(CallFacts(f"c{lane}", f"tool{lane}", "ok", sealed=sealed, needs=needs, lane=lane))
            ended = max(ended, now)
        at = ended
        if calls:
            step("overhead", turn, note="tools done")
        turns.append(TurnFacts(turn, calls=calls))
    at += draw.choice([0, 5])
    stages.sort(key=lambda stage: stage.end)
    places = draw.choice([{}, {"max_parallel": 8}])
    return TraceRecord(trace_id="r", source=source, start=START, end=at, stages=stages, turns=turns, facts=places)


@pytest.mark.parametrize("source", ["hotloop", "other"])
def test_thousands_of_records_are_scheduled_as_they_were_recorded(source):
    for seed in range(1500):
        record = made_up(seed, source)
        plan = schedule(Graph.of(record))
        assert plan.end == record.end - record.start, seed
        assert scheduled_tools(record) == tool_times(record), seed
        assert sum(node.end - node.start for node in path_of(plan)) == plan.end


# Real runs, in real time: no sum is exact by chance


def real_runs() -> list[TraceRecord]:
    kept = Kept()
    tools = [made_tool("a", 3), made_tool("b", 5), made_tool("w", 2, read_only=False, writes=("x:{key}",))]
    slow = [made_tool("a", 3), made_tool("b", 5, after=("a",)), made_tool("w", 2, read_only=False, sequential=True)]
    six = [call(name, key=str(number)) for number, name in enumerate("abwaba")]
    twins = calls_of("a", "a", "b", "a")

    async def run(made, reply, **options) -> None:
        service = SimulatedTransport([reply, "Done, all of it."], ttft=0.002, tpot=0.0003)
        async with Agent(model="m", endpoint=service, tools=made, traces=False, exporters=[kept], **options) as agent:
            await asyncio.gather(*(agent.run("Go") for _ in range(4)))

    async def everything() -> None:
        for reply in (six, twins):
            for made in (tools, slow):
                for options in ({}, {"max_parallel": 2}, {"max_parallel": 1}, {"stream": False}, {"tool_ttl": 60.0}):
                    await run(made, reply, **options)

    asyncio.run(everything())
    assert recorder.flush(10)
    return kept.records


def by_kind(graph: Graph) -> dict[str, float]:
    found: dict[str, float] = {}
    for node in path_of(schedule(graph)):
        found[node.kind] = found.get(node.kind, 0) + in_ms(node.end - node.start)
    return found


def test_real_runs_are_scheduled_as_they_were():
    records = real_runs()
    assert len(records) == 80
    for record in records:
        graph = Graph.of(record)
        assert schedule(graph).end == graph.took
        assert scheduled_tools(record) == tool_times(record)
        assert by_kind(graph).get("unattributed", 0) < 1


@pytest.mark.parametrize("options", [{}, {"max_parallel": 1}, {"stream": False}, {"tool_ttl": 60.0}], ids=str)
def test_the_path_of_a_graph_is_that_of_the_trace(options):
    replies = [calls_of("a", "b", "c"), calls_of("c", "a"), say("word word word")]
    for record in runs_of({"a": 83, "b": 47, "c": 151}, replies, runs=2, **options):
        assert by_kind(Graph.of(record)) == pytest.approx(Trace(record).critical_ms())


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_runs_of_other_frameworks_are_scheduled_as_they_were(sample):
    for record in read_otlp(sample):
        graph = Graph.of(record)
        plan = schedule(graph)
        assert plan.end == graph.took
        lost = sum(node.end - node.start for node in path_of(plan) if node.kind == "unattributed")
        assert lost <= 0.05 * graph.took


# What is read from a record


def test_a_reply_has_its_times_and_tokens_and_its_calls_the_moments_they_were_complete():
    graph = Graph.of(run_of_two())
    ask = graph.turns[0].ask
    assert (in_ms(ask.prefill), in_ms(ask.decode), ask.out, ask.model) == (100, 90, 10, "m")
    fast, slow = graph.turns[0].calls
    assert [(each.name, in_ms(each.sealed), each.early, each.able) for each in (fast, slow)] == [
        ("fast", 50, True, True),
        ("slow", 90, False, True),
    ]
    assert graph.turns[1].ask.known > 0.8 * ask.prompt
    assert (graph.places, graph.asked) == (8, len("Question 0"))


def test_requests_that_failed_are_there_with_what_came_of_them():
    kept = Kept()
    replies = [raw(b"{}", status=500), say("It is here.")]

    async def run() -> None:
        model = ScriptedModel(replies, ttft=0.1, tpot=0.01)
        await Agent(model="m", endpoint=model, traces=False, exporters=[kept]).run("Where?")

    run_virtual(run())
    assert recorder.flush(10)
    pieces = Graph.of(kept.records[0]).turns[0].before
    assert [(each.outcome if type(each) is Ask else each.kind) for each in pieces] == ["failed", "queue", "ok"]


def test_a_call_that_took_the_result_of_an_identical_one_needs_that():
    record = runs_of({"a": 80}, [calls_of("a", "a"), "Done."])[0]
    _, twin = Graph.of(record).turns[0].calls
    assert (twin.outcome, twin.needs, twin.takes_place) == ("joined", (0,), False)
    assert schedule(Graph.of(record)).end == record.end - record.start


def test_calls_that_waited_for_a_place_are_not_longer_for_it():
    record = runs_of({"a": 80, "b": 60}, [calls_of("a", "b"), "Done."], max_parallel=1)[0]
    calls = Graph.of(record).turns[0].calls
    assert [in_ms(sum(step.took for step in call.work)) for call in calls] == [80, 60]
    assert Graph.of(record).places == 1


def test_of_imported_calls_one_after_the_other_each_waits_for_the_one_before():
    stages = [
        Stage("decode", 0, 50 * NS_PER_MS, 0, note="first token unknown"),
        Stage("tool", 50 * NS_PER_MS, 80 * NS_PER_MS, 0, 1, "a"),
        Stage("tool", 81 * NS_PER_MS, 120 * NS_PER_MS, 0, 2, "b"),
        Stage("decode", 121 * NS_PER_MS, 150 * NS_PER_MS, 1, note="first token unknown"),
    ]
    record = TraceRecord(trace_id="r", source="x", start=0, end=150 * NS_PER_MS, stages=stages)
    graph = Graph.of(record)
    a, b = graph.turns[0].calls
    assert (a.needs, b.needs, b.in_line) == ((), (0,), True)
    assert graph.turns[0].ask.span == 0  # nobody saw the first token
    assert schedule(graph).end == graph.took


def test_a_call_that_was_begun_ahead_begins_with_its_turn():
    """Prefetched at 10 ms, known at 90; the reply asks for it at 60 and ends at 70."""
    stages = [
        Stage("prefill", 0, 40, 0),
        Stage("tool", 10, 90, 0, 1, "a", "prefetched"),
        Stage("decode", 40, 70, 0),
        Stage("wait", 60, 90, 0, 1, "a", "prefetched"),
        Stage("prefill", 90, 120, 1),
    ]
    facts = [TurnFacts(0, calls=[CallFacts("c1", "a", "prefetched", head_start=10, sealed=10, lane=1)]), TurnFacts(1)]
    record = TraceRecord(trace_id="r", start=0, end=120, stages=stages, turns=facts, facts={"max_parallel": 8})
    graph = Graph.of(record)
    (call,) = graph.turns[0].calls
    assert (call.ahead, call.sealed) == (True, 20)
    assert scheduled_tools(record) == {("a", 10, 90)}
    assert schedule(graph).end == 120


def test_a_run_in_which_nothing_happened():
    graph = Graph.of(TraceRecord(trace_id="r", start=7, end=7))
    assert (graph.asks, graph.has_calls, schedule(graph)) == ([], False, ([], 0, ()))


def test_a_record_that_makes_no_sense_is_read_all_the_same():
    """Stages that overlap, calls without a reply, needs in a circle: nothing breaks, and no piece is late by itself."""
    kinds = ("context", "queue", "connect", "prefill", "decode", "parse", "tool", "wait", "guard", "overhead")
    notes = ("", "joined", "for a free place", "prefetched", "first token unknown")
    for seed in range(500):
        draw = random.Random(seed)
        stages = [
            Stage(
                draw.choice(kinds),
                at,
                at + draw.randrange(40),
                draw.randrange(3),
                draw.randrange(3),
                "a",
                draw.choice(notes),
            )
            for at in (draw.randrange(100) for _ in range(draw.randrange(20)))
        ]
        calls = [
            CallFacts(f"c{lane}", "a", "ok", needs=("c1", "c2", "c3"), sealed=draw.randrange(90), lane=lane)
            for lane in range(1, 4)
        ]
        record = TraceRecord(trace_id="r", start=0, end=150, stages=stages, turns=[TurnFacts(0, calls=calls)])
        plan = schedule(Graph.of(record))
        assert min(slack_of(plan), default=0) >= 0
        assert sum(node.end - node.start for node in path_of(plan)) <= plan.end
