"""Records as a trace that chrome://tracing and Perfetto open: a process for each run, a thread for each lane."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from hotloop.trace.calls import CallStages, calls_of
from hotloop.trace.ledger import AttemptFacts, Stage, TurnFacts
from hotloop.trace.record import TraceRecord
from hotloop.units import NS_PER_S

_NS_PER_US = 1000
_LANES = 10_000  # more than any run has
_Event = dict[str, Any]


def chrome_trace(records: Iterable[TraceRecord]) -> dict[str, Any]:
    """The records in the trace event format, ready for JSON; its times are microseconds since the first run began.

    A run's own stages are its first thread, those of its calls the threads after it. Requests to models have tracks of
    their own, for those of a hedge are at the same time. An arrow goes from where a call was sealed to where its tool
    began, and counters tell how many tools were at work and how many tokens each prompt had.
    """
    runs = sorted(records, key=lambda record: record.started)
    first = runs[0].started if runs else 0.0
    events = [event for number, record in enumerate(runs, 1) for event in _Run(record, number, first).events()]
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"started": first, "runs": len(runs)}}


class _Run:
    def __init__(self, record: TraceRecord, number: int, first: float) -> None:
        self._record = record
        self._number = number
        self._offset = round((record.started - first) * NS_PER_S) - record.start

    def events(self) -> Iterator[_Event]:
        record = self._record
        yield from self._names()
        yield from map(self._stage, record.stages)
        for number, facts in enumerate(record.attempts):
            yield from self._request(number, facts)
        calls = calls_of(record)
        for number, call in enumerate(calls):
            yield from self._arrow(number, call)
        yield from self._at_work(calls)
        for turn in record.turns:
            yield from self._tokens(turn)

    def _names(self) -> Iterator[_Event]:
        record = self._record
        name = f"{record.name or 'run'} {record.trace_id}"
        yield self._event("M", 0, "process_name", args={"name": name})
        yield self._event("M", 0, "process_sort_index", args={"sort_index": self._number})
        for lane in sorted({0, *(stage.lane for stage in record.stages)}):
            yield self._event("M", lane, "thread_name", args={"name": f"call {lane}" if lane else "run"})
            yield self._event("M", lane, "thread_sort_index", args={"sort_index": lane})

    def _stage(self, stage: Stage) -> _Event:
        told = {"turn": stage.turn} | ({"note": stage.note} if stage.note else {})
        name = stage.name or stage.kind
        took = {"dur": (stage.end - stage.start) / _NS_PER_US}
        return self._event("X", stage.lane, name, stage.start, cat=stage.kind, args=told, **took)

    def _request(self, number: int, facts: AttemptFacts) -> Iterator[_Event]:
        """A request, from its start over its first token to its end."""
        name, track = f"{facts.why} {facts.model}", {"cat": "request", "id": self._id(f"request {number}")}
        told = {"turn": facts.turn, "service": facts.service, "outcome": facts.outcome, "reason": facts.reason}
        yield self._event("b", 0, name, facts.start, args={key: value for key, value in told.items() if value}, **track)
        if facts.first:
            yield self._event("n", 0, "first token", facts.first, **track)
        yield self._event("e", 0, name, facts.end, **track)

    def _arrow(self, number: int, call: CallStages) -> Iterator[_Event]:
        """From where the call was complete to where its tool began."""
        if call.facts is None or call.last.kind != "tool":
            return
        turn = call.last.turn
        end = max((s.end for s in self._record.stages if s.turn == turn and s.kind == "decode"), default=None)
        if end is not None:
            told = {"cat": "call", "id": self._id(f"call {number}")}
            yield self._event("s", 0, "sealed", min(end - call.facts.sealed, call.last.start), **told)
            yield self._event("f", call.last.lane, "sealed", call.last.start, bp="e", **told)

    def _at_work(self, calls: list[CallStages]) -> Iterator[_Event]:
        tools = [call.last for call in calls if call.last.kind == "tool"]
        steps = sorted([(stage.start, 1) for stage in tools] + [(stage.end, -1) for stage in tools])
        count = 0
        for at, step in steps:
            count += step
            yield self._event("C", 0, "tools at work", at, args={"tools": count})

    def _tokens(self, facts: TurnFacts) -> Iterator[_Event]:
        usage = facts.usage
        at = min((stage.start for stage in self._record.stages if stage.turn == facts.turn), default=None)
        if at is not None and usage.input_tokens is not None:
            cached = usage.cached_tokens or 0
            yield self._event("C", 0, "prompt", at, args={"cached": cached, "new": usage.input_tokens - cached})

    def _event(self, phase: str, thread: int, name: str, at: int | None = None, **more: Any) -> _Event:
        when = 0.0 if at is None else (at + self._offset) / _NS_PER_US
        kind = "__metadata" if phase == "M" else "hotloop"
        process = self._number * _LANES  # so that no two threads have the same id, and none has 0, which is special
        told = {"ph": phase, "pid": process, "tid": process + thread, "name": name, "cat": kind, "ts": when}
        return told | more

    def _id(self, what: str) -> str:
        return f"{self._number} {what}"
