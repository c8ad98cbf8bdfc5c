"""A span of a trace, whatever it was written in: OTLP as JSON or as protobuf."""

from __future__ import annotations

from typing import Any

import msgspec

INTERNAL, SERVER, CLIENT = 1, 2, 3
"""Kinds of spans, as OTLP counts them."""

LATEST = 2**63 - 1
"""The last moment (Unix nanoseconds) that can be kept: in the year 2262."""


class SpanEvent(msgspec.Struct, gc=False):
    """Something that happened at a moment (Unix nanoseconds) of a span."""

    name: str
    at: int
    attributes: dict[str, Any]


class Span(msgspec.Struct, gc=False):
    """One span; times are Unix nanoseconds, `end` is 0 for one that has not ended.

    `parent_id` is "" for the root of a trace. `scope` names the library that recorded it, `resource` tells of the
    process that it ran in.
    """

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    kind: int
    start: int
    end: int
    attributes: dict[str, Any]
    events: list[SpanEvent]
    failed: bool
    scope: str
    resource: dict[str, Any]
