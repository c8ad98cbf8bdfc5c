"""Where in a trace the spans of a run go: their ids are known before they are made, because tools were told of them."""

from __future__ import annotations

import threading

from opentelemetry.context import Context
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Sampler
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState, set_span_in_context

from hotloop.trace.otel import names
from hotloop.trace.record import TraceRecord
from hotloop.trace.w3c import Position, read_position, w3c_trace_id


class GivenIds(IdGenerator):
    """Gives the ids that were set in this thread."""

    def __init__(self) -> None:
        self._here = threading.local()

    def set(self, trace_id: str, span_id: str) -> None:
        """The ids of the span that is made next, as hexadecimal digits."""
        self._here.trace_id, self._here.span_id = int(trace_id, 16), int(span_id, 16)

    def generate_span_id(self) -> int:
        """See `IdGenerator`."""
        return int(self._here.span_id)

    def generate_trace_id(self) -> int:
        """See `IdGenerator`."""
        return int(self._here.trace_id)


def context_of(parent: Position | None) -> Context:
    """The context in which the first span of somebody at `parent` is made."""
    if parent is None:
        return Context()
    state = TraceState.from_header([parent.state]) if parent.state else None
    ids = int(parent.trace_id, 16), int(parent.span_id, 16)
    span = SpanContext(*ids, is_remote=True, trace_flags=TraceFlags(parent.flags), trace_state=state)
    return set_span_in_context(NonRecordingSpan(span), Context())


def parent_of(record: TraceRecord) -> Position | None:
    """Who asked for a run; None if nobody who is part of a trace did."""
    return read_position(record.facts.get("traceparent", ""), record.facts.get("tracestate", ""))


def position_in(sampler: Sampler, run_id: str, parent: Position | None) -> Position:
    """Where a run stands whose spans this sampler keeps or not."""
    trace_id = w3c_trace_id(run_id) if parent is None else parent.trace_id
    result = sampler.should_sample(context_of(parent), int(trace_id, 16), names.INVOKE_AGENT)
    flags = (0 if parent is None else parent.flags & ~TraceFlags.SAMPLED) | int(result.decision.is_sampled())  # type: ignore[no-untyped-call]
    if parent is None:
        return Position(trace_id, flags=flags, own=True)
    return Position(trace_id, parent.span_id, flags, parent.state, own=True)
