"""Spans for tests, written as an agent's instrumentation would: times are milliseconds from one moment."""

from __future__ import annotations

from typing import Any

from hotloop.trace.importing.records import records_of_spans
from hotloop.trace.importing.span import CLIENT, INTERNAL, Span, SpanEvent
from hotloop.trace.record import TraceRecord
from hotloop.trace.trace import Trace

EPOCH = 1_796_000_000_000_000_000
TRACE = "0af7651916cd43dd8448eb211c80319c"
MS = 1_000_000


def span(span_id: str, parent: str, start: float, end: float, name: str = "", **more: Any) -> Span:
    """A span with a short id; `end` 0 is one that has not ended."""
    return Span(
        more.pop("trace", TRACE),
        span_id,
        parent,
        name or span_id,
        more.pop("kind", INTERNAL),
        EPOCH + round(start * MS),
        EPOCH + round(end * MS) if end else 0,
        more.pop("attributes", {}),
        more.pop("events", []),
        more.pop("failed", False),
        more.pop("scope", "shop"),
        more.pop("resource", {}),
    )


def agent(span_id: str, parent: str, start: float, end: float, name: str = "orders", **more: Any) -> Span:
    """A run of an agent."""
    told = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
    return span(span_id, parent, start, end, f"invoke_agent {name}", attributes=told | more.pop("told", {}), **more)


def chat(span_id: str, parent: str, start: float, end: float, **more: Any) -> Span:
    """A request to a model; `told` are further attributes."""
    told = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.provider.name": "openai"}
    return span(span_id, parent, start, end, "chat m", kind=CLIENT, attributes=told | more.pop("told", {}), **more)


def tool(span_id: str, parent: str, start: float, end: float, name: str = "look", **more: Any) -> Span:
    """A tool at work."""
    told = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    return span(span_id, parent, start, end, f"execute_tool {name}", attributes=told | more.pop("told", {}), **more)


def event(name: str, at: float, **attributes: Any) -> SpanEvent:
    """Something that happened at a moment."""
    return SpanEvent(name, EPOCH + round(at * MS), attributes)


def records(*spans: Span, content: bool = False) -> list[TraceRecord]:
    """The records of these spans."""
    return list(records_of_spans(spans, content))


def record(*spans: Span, content: bool = False) -> TraceRecord:
    """The only record of these spans."""
    (found,) = records(*spans, content=content)
    return found


def shown(found: TraceRecord) -> list[tuple[str, int, int, str, float, float]]:
    """The stages in the order of their starts: kind, turn, lane, name, and times in milliseconds."""
    stages = sorted(found.stages, key=lambda stage: (stage.start, stage.lane, stage.end))
    return [(s.kind, s.turn, s.lane, s.name, s.start / MS, s.end / MS) for s in stages]


def path(found: TraceRecord) -> list[tuple[str, str, float, float]]:
    """The critical path: kind, name, and times in milliseconds, from its start."""
    return [(s.kind, s.name, s.start / MS, s.end / MS) for s in Trace(found).critical_path()]
