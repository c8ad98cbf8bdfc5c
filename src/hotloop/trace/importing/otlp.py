"""OTLP as JSON: an export request of spans, as exporters and collectors write it to files and send it over HTTP."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import msgspec

from hotloop.errors import ConfigError
from hotloop.fields import in_plain_words
from hotloop.trace.importing.span import CLIENT, INTERNAL, LATEST, SERVER, Span, SpanEvent

_KINDS = {
    "SPAN_KIND_INTERNAL": INTERNAL,
    "SPAN_KIND_SERVER": SERVER,
    "SPAN_KIND_CLIENT": CLIENT,
    "SPAN_KIND_PRODUCER": 4,
    "SPAN_KIND_CONSUMER": 5,
}
_FAILED = (2, "STATUS_CODE_ERROR")
_TRACE, _SPAN = 16, 8  # bytes of an id
_NO_ID = "is the id of no {}; it takes {} bytes in hex or base64, other than zeros"


_Time: TypeAlias = int | float | str | None


class _Value(msgspec.Struct, rename="camel", gc=False):
    string_value: str | None = None
    int_value: int | str | None = None
    double_value: float | str | None = None
    bool_value: bool | None = None
    array_value: _Values | None = None
    kvlist_value: _Pairs | None = None
    bytes_value: str | None = None


class _Values(msgspec.Struct, gc=False):
    values: list[_Value] | None = None


class _Pair(msgspec.Struct, gc=False):
    key: str | None
    value: _Value | None = None


class _Pairs(msgspec.Struct, gc=False):
    values: list[_Pair] | None = None


class _Event(msgspec.Struct, rename="camel", gc=False):
    name: str | None = None
    time_unix_nano: _Time = None
    attributes: list[_Pair] | None = None


class _Status(msgspec.Struct, gc=False):
    code: int | str | None = None


class _Span(msgspec.Struct, rename="camel", gc=False):
    trace_id: str | None
    span_id: str | None
    start_time_unix_nano: _Time
    parent_span_id: str | None = None
    name: str | None = None
    kind: int | str | None = None
    end_time_unix_nano: _Time = None
    attributes: list[_Pair] | None = None
    events: list[_Event] | None = None
    status: _Status | None = None


class _Scope(msgspec.Struct, gc=False):
    name: str | None = None


class _ScopeSpans(msgspec.Struct, gc=False):
    scope: _Scope | None = None
    spans: list[_Span] | None = None


class _Resource(msgspec.Struct, gc=False):
    attributes: list[_Pair] | None = None


class _ResourceSpans(msgspec.Struct, rename="camel", gc=False):
    resource: _Resource | None = None
    scope_spans: list[_ScopeSpans] | None = None


class _Request(msgspec.Struct, rename="camel", gc=False):
    resource_spans: list[_ResourceSpans] | None = None
    resource_logs: Any = None
    resource_metrics: Any = None


class _SpanId(msgspec.Struct, rename="camel", gc=False):
    trace_id: str | None


class _ScopeIds(msgspec.Struct, gc=False):
    spans: list[_SpanId] | None = None


class _ResourceIds(msgspec.Struct, rename="camel", gc=False):
    scope_spans: list[_ScopeIds] | None = None


class _Ids(msgspec.Struct, rename="camel", gc=False):
    resource_spans: list[_ResourceIds] | None = None


_decoder = msgspec.json.Decoder(_Request)
_ids_decoder = msgspec.json.Decoder(_Ids)


def spans_of(document: bytes | dict[str, Any], place: str = "The document") -> list[Span]:
    """The spans of an export request; `place` is where it is, for a person.

    A request of logs or metrics has none. Raises ConfigError, with the place, for what is no export request.
    """
    with _telling(place):
        request = msgspec.convert(document, _Request) if isinstance(document, dict) else _decoder.decode(document)
        if not request.resource_spans and request.resource_logs is None and request.resource_metrics is None:
            raise ValueError("there is no resourceSpans in it")
        return list(_spans(request))


def trace_ids_of(document: bytes, place: str) -> list[str]:
    """The id of the trace of each span in an export request. Raises ConfigError as `spans_of` does."""
    with _telling(place):
        request = _ids_decoder.decode(document)
        return [
            _id(span.trace_id, _TRACE, "trace")
            for of_resource in request.resource_spans or ()
            for of_scope in of_resource.scope_spans or ()
            for span in of_scope.spans or ()
        ]


@contextmanager
def _telling(place: str) -> Iterator[None]:
    """What is wrong with a document, as a ConfigError."""
    try:
        yield
    except msgspec.ValidationError as error:
        what, where = in_plain_words(error)
        raise ConfigError(f"{place}: no OTLP: {where and f'{where}: '}{what}.") from None
    except msgspec.DecodeError as error:
        raise ConfigError(f"{place}: not valid JSON: {error}.") from None
    except RecursionError:
        raise ConfigError(f"{place}: no OTLP: a value has others in it that are too deep to be read.") from None
    except ValueError as error:
        raise ConfigError(f"{place}: no OTLP: {error}.") from None


def _spans(request: _Request) -> Iterator[Span]:
    for of_resource in request.resource_spans or ():
        resource = _mapping(of_resource.resource.attributes) if of_resource.resource else {}
        for of_scope in of_resource.scope_spans or ():
            scope = of_scope.scope.name if of_scope.scope else ""
            for span in of_scope.spans or ():
                yield _span(span, scope or "", resource)


def _span(span: _Span, scope: str, resource: dict[str, Any]) -> Span:
    return Span(
        _id(span.trace_id, _TRACE, "trace"),
        _id(span.span_id, _SPAN, "span"),
        _id(span.parent_span_id, _SPAN, "span", optional=True) if span.parent_span_id else "",
        span.name or "",
        _KINDS.get(span.kind, 0) if isinstance(span.kind, str) else span.kind or 0,
        _nanoseconds(span.start_time_unix_nano),
        _nanoseconds(span.end_time_unix_nano),
        _mapping(span.attributes),
        [_event(each) for each in span.events or ()],
        span.status is not None and span.status.code in _FAILED,
        scope,
        resource,
    )


def _event(event: _Event) -> SpanEvent:
    return SpanEvent(event.name or "", _nanoseconds(event.time_unix_nano), _mapping(event.attributes))


def _id(text: str | None, size: int, what: str, optional: bool = False) -> str:
    """An id in hex. The JSON of OTLP has it so; that of protobuf in base64."""
    text = text or ""
    try:
        raw = bytes.fromhex(text) if len(text) == 2 * size else base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raw = b""
    if optional and not any(raw) and len(raw) == size:
        return ""
    if len(raw) != size or not any(raw):
        raise ValueError(f"{text[:50]!r} {_NO_ID.format(what, size)}")
    return raw.hex()


def _nanoseconds(value: _Time) -> int:
    try:
        moment = int(value or 0)
    except (ValueError, OverflowError):
        moment = -1
    if not 0 <= moment <= LATEST:
        raise ValueError(f"{value!r:.50} is no time in nanoseconds since 1970")
    return moment


def _number(value: float | str, kind: type[int] | type[float]) -> int | float:
    try:
        number = kind(value)
    except (ValueError, OverflowError):
        raise ValueError(f"{value!r:.50} is no number") from None
    if kind is int and not -LATEST - 1 <= number <= LATEST:
        raise ValueError(f"{value!r:.50} is no number of 64 bits")
    return number


def _mapping(pairs: Iterable[_Pair] | None) -> dict[str, Any]:
    return {pair.key or "": _plain(pair.value) for pair in pairs or () if pair.value is not None}


def _plain(value: _Value) -> Any:
    """The value of an attribute; bytes stay in base64, and what is of no kind is None."""
    if value.string_value is not None:
        return value.string_value
    if value.int_value is not None:
        return _number(value.int_value, int)
    if value.double_value is not None:
        return _number(value.double_value, float)
    if value.array_value is not None:
        return [_plain(each) for each in value.array_value.values or ()]
    if value.kvlist_value is not None:
        return _mapping(value.kvlist_value.values)
    return value.bytes_value if value.bool_value is None else value.bool_value
