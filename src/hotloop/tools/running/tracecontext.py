"""How a tool that works elsewhere is told which run it works for, and what it records finds its place below the run."""

from __future__ import annotations

import sys
from typing import Any

from hotloop.tools.running.caller import Caller
from hotloop.tools.running.progress import reporter
from hotloop.trace.w3c import Position, span_id_of, w3c_trace_id


def trace_headers() -> dict[str, str]:
    """The W3C headers of the call at work, `traceparent` and, if there is one, `tracestate`; none outside of a call."""
    here = reporter.get()
    if here is None:
        return {}
    position = position_of(here.caller, here.call_id)
    headers = {"traceparent": position.traceparent}
    return headers | {"tracestate": position.state} if position.state else headers


def traceparent_of(trace_id: str, call_id: str) -> str:
    """The `traceparent` of this call in this run of nobody, the same whenever it is asked for.

    A run's id that is a W3C trace id already stays as it is, any other is hashed to one.
    """
    return position_of(Caller(trace_id), call_id).traceparent


def position_of(caller: Caller, call_id: str) -> Position:
    """The span that what this call does belongs below.

    That is the call's own, unless the run is part of a trace in which it records nothing: then it is whoever asked.
    """
    position = caller.position
    if position is None:
        position = Position(w3c_trace_id(caller.run))
    elif not position.own:
        return position
    return position.below(span_id_of(caller.run, call_id))


def enter_span(caller: Caller, call_id: str) -> Any:
    """Make the call's span OpenTelemetry's current one, so that what the tool records is below it; see `leave_span`.

    None where the run's own spans are not recorded: then whoever asked is current already.
    """
    otel = sys.modules.get("opentelemetry.trace")
    if caller.position is None or not caller.position.own or otel is None:
        return None
    from opentelemetry import context

    position = position_of(caller, call_id)
    state = otel.TraceState.from_header([position.state]) if position.state else None
    ids = int(position.trace_id, 16), int(position.span_id, 16)
    span = otel.SpanContext(*ids, is_remote=False, trace_flags=otel.TraceFlags(position.flags), trace_state=state)
    return context.attach(otel.set_span_in_context(otel.NonRecordingSpan(span)))


def leave_span(entered: Any) -> None:
    """The call is over."""
    from opentelemetry import context

    context.detach(entered)
