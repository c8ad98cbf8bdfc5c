"""OTLP as protobuf, which is what most exporters send: an export request of spans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from hotloop.errors import ConfigError
from hotloop.trace.importing.span import LATEST, Span, SpanEvent

_FAILED = 2
_NEEDED = 'OTLP in protobuf needs more packages: pip install "hotloop[otel]". Or have it sent as JSON.'


class ProtobufMissing(ConfigError):
    """The packages that read protobuf are not installed."""


def spans_of_protobuf(data: bytes) -> list[Span]:
    """The spans of an export request. Raises ConfigError for what is none, ProtobufMissing without the extra "otel"."""
    try:
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    except ModuleNotFoundError:
        raise ProtobufMissing(_NEEDED) from None
    try:
        return list(_spans(ExportTraceServiceRequest.FromString(data)))
    except DecodeError:
        raise ConfigError("The body is no export request of OTLP in protobuf.") from None


def _spans(request: Any) -> Iterator[Span]:
    for of_resource in request.resource_spans:
        resource = _mapping(of_resource.resource.attributes)
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                if span.trace_id and span.span_id:
                    yield _span(span, of_scope.scope.name, resource)


def _span(span: Any, scope: str, resource: dict[str, Any]) -> Span:
    return Span(
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex() if any(span.parent_span_id) else "",
        span.name,
        span.kind,
        _nanoseconds(span.start_time_unix_nano),
        _nanoseconds(span.end_time_unix_nano),
        _mapping(span.attributes),
        [_event(each) for each in span.events],
        span.status.code == _FAILED,
        scope,
        resource,
    )


def _event(event: Any) -> SpanEvent:
    return SpanEvent(event.name, _nanoseconds(event.time_unix_nano), _mapping(event.attributes))


def _nanoseconds(value: int) -> int:
    if value > LATEST:
        raise ConfigError(f"The body: {value} is no time in nanoseconds since 1970.")
    return value


def _mapping(pairs: Iterable[Any]) -> dict[str, Any]:
    return {pair.key: _plain(pair.value) for pair in pairs}


def _plain(value: Any) -> Any:
    """The value of an attribute; None for one of no kind."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(each) for each in value.array_value.values]
    if kind == "kvlist_value":
        return _mapping(value.kvlist_value.values)
    return None if kind is None else getattr(value, kind)
