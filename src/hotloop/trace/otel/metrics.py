"""A record as measurements: histograms of OpenTelemetry, with the bounds that the conventions give them."""

from __future__ import annotations

from typing import Any

from opentelemetry.metrics import Counter, Histogram, Meter

from hotloop.trace.calls import calls_of
from hotloop.trace.ledger import AttemptFacts, Stage, TurnFacts
from hotloop.trace.otel import names
from hotloop.trace.otel.names import Instrument, Metrics
from hotloop.trace.otel.spans import call_attributes, replies_of, request_attributes
from hotloop.trace.record import TraceRecord
from hotloop.trace.trace import Trace
from hotloop.units import NS_PER_S

_OWN = ("overhead", "parse", "emit")
_OF_A_CALL = (names.TOOL_NAME, names.TOOL_TYPE, names.ERROR)


class Measures:
    """The instruments of one meter; `metrics` are their names."""

    def __init__(self, meter: Meter, metrics: Metrics) -> None:
        self._duration = _histogram(meter, metrics.duration)
        self._first_chunk = _histogram(meter, metrics.first_chunk)
        self._output_chunk = _histogram(meter, metrics.output_chunk)
        self._agent = _histogram(meter, metrics.agent)
        self._tool = _histogram(meter, metrics.tool)
        self._overhead = _histogram(meter, metrics.overhead)
        made = {count.instrument.name: _made(meter, count.instrument) for count in metrics.tokens}
        self._tokens = [(count.field, made[count.instrument.name], count.attributes) for count in metrics.tokens]

    def take(self, record: TraceRecord) -> None:
        """Measure this run."""
        for facts, reply in replies_of(record):
            self._request(facts, reply)
        whose = {names.AGENT_NAME: record.name} if record.name else {}
        for call in calls_of(record):
            if call.last.kind == "tool":
                told = {name: value for name, value in call_attributes(call).items() if name in _OF_A_CALL}
                self._tool.record(_seconds(call.last), told | whose)
        failed = {names.ERROR: record.error or record.outcome} if record.outcome in ("failed", "cancelled") else {}
        self._agent.record((record.end - record.start) / NS_PER_S, whose | failed)
        self._overhead.record(sum(map(_seconds, filter(_is_own, Trace(record).critical_path()))), whose)

    def _request(self, facts: AttemptFacts, reply: TurnFacts | None) -> None:
        told = request_attributes(facts, reply)
        self._duration.record((facts.end - facts.start) / NS_PER_S, told)
        told.pop(names.ERROR, None)
        if facts.first:
            self._first_chunk.record((facts.first - facts.start) / NS_PER_S, told)
        if reply is not None and reply.tpot is not None:
            self._output_chunk.record(reply.tpot / NS_PER_S, told)
        for field, instrument, more in self._tokens:
            if (count := getattr(facts.usage, field)) is not None:
                _tell(instrument, count, told | more)


def _made(meter: Meter, told: Instrument) -> Histogram | Counter:
    if told.bounds is None:
        return meter.create_counter(told.name, told.unit, told.description)
    return _histogram(meter, told)


def _histogram(meter: Meter, told: Instrument) -> Histogram:
    return meter.create_histogram(
        told.name, told.unit, told.description, explicit_bucket_boundaries_advisory=told.bounds
    )


def _tell(instrument: Histogram | Counter, value: int, attributes: dict[str, Any]) -> None:
    if isinstance(instrument, Counter):
        instrument.add(value, attributes)
    else:
        instrument.record(value, attributes)


def _seconds(stage: Stage) -> float:
    return (stage.end - stage.start) / NS_PER_S


def _is_own(stage: Stage) -> bool:
    """Whether it is the loop's own work; a context stage with a note is a wait for something."""
    return stage.kind in _OWN or (stage.kind == "context" and not stage.note)
