"""Runs that have ended, and exporters that keep what they are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hotloop.trace.declared import Declared, Price
from hotloop.trace.ledger import AttemptFacts, CallFacts, Ledger, Spoken, Stage, ToolFacts, TurnFacts, Usage, Words
from hotloop.trace.record import Ended, Said, TraceRecord


def ended(trace_id: str = "req-1", words: Words | None = None, **options: Any) -> Ended:
    """A run of a millisecond."""
    ticks = iter([0, 1_000_000])
    ledger = Ledger(lambda: next(ticks), trace_id, "orders", 1.8e9)
    ledger.close()
    return Ended(ledger, {}, words or Words("Where is it?"), **options)


def record(trace_id: str = "req-1", *, took: float = 1.0, **options: Any) -> TraceRecord:
    """A record of a run that took so many seconds."""
    return TraceRecord(trace_id=trace_id, **{"started": 1.8e9, **options}, start=0, end=round(took * 1e9))


def full_record() -> TraceRecord:
    """A record in which no field is as it is by default."""
    usage = Usage(200, 96, 150, 12)
    call = CallFacts("call00001", "look", "ok", 3, "note (order:7)", 5, 7, True, 11, ("call00000",))
    turn = TurnFacts(1, 5, 7, usage, 2, True, True, "stop", "m-1", ["look"], 9, [call], True, 1, {"queue": 1.5}, 13)
    attempt = AttemptFacts(1, "host", "m", "retry", 1, 9, "failed", 4, "busy", usage, 700, 300, "Overloaded")
    said = Said("d1", 12, "d2", "text", "result", ("call00000",))
    return TraceRecord(
        trace_id="req-1",
        name="orders",
        version="1.3",
        session="user-42",
        source="pydantic-ai",
        started=1.8e9,
        start=5,
        end=2_000_000_005,
        outcome="failed",
        error="Overloaded",
        stages=[Stage("tool", 7, 9, 1, 2, "look", "cached")],
        turns=[turn],
        attempts=[attempt],
        facts={"max_parallel": 8, "routes": [{"turn": 0, "route": "fast"}]},
        limits={"total": 1_500_000_000},
        tools={"look": ToolFacts(True, 3.0, 60.0, 2, ("note",), 270)},
        declared=Declared(prices=(Price("host", "m", 0.5, 1.5),), context_limit=8_000),
        prompt=Said("d3", 3),
        answer=Said("d4", 4),
        said={"call00001": said},
        since=7,
    )


def spoken(*results: str) -> Words:
    """What was said in a run with such results."""
    calls = [Spoken(f"call{number:05}", {"id": number}, result) for number, result in enumerate(results, 1)]
    return Words("Where is it?", calls, "There.")


class Kept:
    """An exporter that keeps records, and in how many batches they came."""

    def __init__(self) -> None:
        self.records: list[TraceRecord] = []
        self.batches = 0
        self.closed = False

    def export(self, records: Sequence[TraceRecord]) -> None:
        self.records += records
        self.batches += 1

    def close(self) -> None:
        self.closed = True
