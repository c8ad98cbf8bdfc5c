"""A request to a model, read from its span and those below: when it was sent, what came of it, what it took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from hotloop.trace.importing import names
from hotloop.trace.importing.failures import class_of, class_of_status
from hotloop.trace.importing.messages import Message, reply_messages, request_text
from hotloop.trace.importing.names import told, told_count, told_text
from hotloop.trace.importing.span import Span
from hotloop.trace.importing.tree import Node, below
from hotloop.trace.ledger import Usage
from hotloop.units import NS_PER_MS, ns

_FINISH = {
    "tool_call": "tool_calls",
    "tool_use": "tool_calls",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "completed": "stop",
    "max_tokens": "length",
    "max_output_tokens": "length",
}
_LONGEST = 3_600_000  # seconds or milliseconds: nobody waits longer
_UNIX, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_CANCELLED = "CancelledError"
_UNNAMED = "Error"


class Try(msgspec.Struct, frozen=True, gc=False):
    """One HTTP request; times are Unix nanoseconds.

    Of a failed one `error` is the class of ours, as far as there is one, and `reason` tells why.
    """

    start: int
    end: int
    error: str = ""
    reason: str = ""


class Asked(msgspec.Struct, frozen=True, gc=False):
    """One request to a model, with the HTTP requests that it took, if they were recorded. Times are Unix nanoseconds.

    `sent` is when the last of them began, `first` when the first token came, None if nobody noted it, and `chunks` are
    when each part of the reply came, if that was noted. `span` has all that is told of it, `text` is what there is of
    its messages.
    """

    node: Node
    span: Span
    model: str
    answered_by: str | None
    service: str
    usage: Usage
    finish: str
    error: str
    tries: tuple[Try, ...]
    sent: int
    first: int | None
    chunks: tuple[int, ...]
    text: str
    reply: list[Message]
    server_ms: dict[str, float]

    @property
    def start(self) -> int:
        """When it began."""
        return self.node.start

    @property
    def end(self) -> int:
        """When its reply was complete, or it had failed."""
        return self.node.end


def read_asked(node: Node) -> Asked:
    """The request of a model's node."""
    inside = list(below(node))
    span = _together(inside)
    attributes = span.attributes
    tries = _tries(inside[1:])
    sent = tries[-1].start if tries else node.start
    error = _failure(node.span, span.attributes, tries[-1].reason if tries else "") or _stopped(span)
    return Asked(
        node,
        span,
        told_text(attributes, names.REQUEST_MODEL),
        told_text(attributes, names.RESPONSE_MODEL) or None,
        _service(attributes),
        usage_of(attributes),
        _finish(told(attributes, names.FINISH)),
        error,
        tries,
        sent,
        _first(node, inside, attributes, sent),
        tuple(_tokens(inside, sent)),
        request_text(span),
        [] if error else reply_messages(span),
        _server_ms(attributes),
    )


def usage_of(attributes: Mapping[str, Any]) -> Usage:
    """The tokens that a span tells."""
    return Usage(
        told_count(attributes, names.INPUT_TOKENS),
        told_count(attributes, names.OUTPUT_TOKENS),
        told_count(attributes, names.CACHED_TOKENS),
        told_count(attributes, names.REASONING_TOKENS),
    )


def error_of(span: Span) -> str:
    """The class of what a span failed with, without the modules that it is in; "" if it did not fail."""
    if not span.failed:
        return ""
    raised = [event.attributes for event in span.events if event.name == "exception"]
    name = next((text for each in (*raised, span.attributes) if (text := told_text(each, names.ERROR))), _UNNAMED)
    return name.rsplit(".", 1)[-1] or _UNNAMED


def _failure(span: Span, attributes: Mapping[str, Any], reason: str = "") -> str:
    """The class of ours for what a request failed with, which its attributes and a `reason` tell of, too."""
    error = error_of(span)
    messages = [told_text(event.attributes, names.MESSAGE) for event in span.events if event.name == "exception"]
    return error and class_of(error, attributes, " ".join([*messages, reason]))


def _stopped(span: Span) -> str:
    """Why a request of ours was given up though it did not fail, such as the slower one of two; "" if it was not."""
    outcome = told_text(span.attributes, (names.OUTCOME,))
    return "" if outcome in ("", "ok") else told_text(span.attributes, names.ERROR) or outcome


def is_cancelled(error: str) -> bool:
    """Whether a class of error tells that nobody waited any longer."""
    return error == _CANCELLED


def _together(inside: Sequence[Node]) -> Span:
    """The span of a model, with what those below that are of the same request add to it."""
    spans = [node.span for node in inside if node.role == "model" or _tells_times(node.span)]
    attributes: dict[str, Any] = {}
    for span in reversed(spans):
        attributes |= span.attributes
    return msgspec.structs.replace(inside[0].span, attributes=attributes, events=[e for s in spans for e in s.events])


def _tells_times(span: Span) -> bool:
    """Whether it is a server's own, which tells what it took."""
    return any(name in span.attributes for name in names.SERVER_SECONDS)


def _tries(inside: Sequence[Node]) -> tuple[Try, ...]:
    """The HTTP requests for the reply, those below others left out: the last one, and those before it that failed."""
    found = sorted((node for node in inside if node.role == "http"), key=lambda node: node.start)
    tries = [_try(node) for node in found if node.parent is None or node.parent.role != "http"]
    return (*(each for each in tries[:-1] if each.error), *tries[-1:])


def _try(node: Node) -> Try:
    status = told_count(node.span.attributes, names.STATUS) or 0
    if status >= 400:
        return Try(node.start, node.end, class_of_status(status), f"status {status}")
    return Try(node.start, node.end, _failure(node.span, node.span.attributes))


def _first(node: Node, inside: Sequence[Node], attributes: Mapping[str, Any], sent: int) -> int | None:
    """When the first token came."""
    seconds, milliseconds = told(attributes, names.FIRST_CHUNK), told(attributes, names.FIRST_CHUNK_MS)
    if _is_time(seconds):
        at = node.start + ns(seconds)
    elif _is_time(milliseconds):
        at = node.start + int(milliseconds * NS_PER_MS)
    else:
        at = next(iter(_tokens(inside, sent)), 0) or _moment(attributes.get(names.FIRST_AT))
    return min(max(at, sent), node.end) if at else None


def _tokens(inside: Sequence[Node], sent: int) -> list[int]:
    """When parts of the reply came; not what was noted when its span had ended, which is too late."""
    noted = (
        event.at
        for node in inside
        for event in node.span.events
        if event.name in names.TOKEN_EVENTS and sent <= event.at <= node.span.end
    )
    return sorted(noted)


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _LONGEST


def _moment(value: Any) -> int:
    """Unix nanoseconds of an ISO date, in quotes or not; 0 for anything else."""
    try:
        moment = datetime.fromisoformat(str(value).strip('"'))
    except ValueError:
        return 0
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - _UNIX) // _MICROSECOND * 1000


def _service(attributes: Mapping[str, Any]) -> str:
    """Where the model is asked, as far as it is told: the host, or who provides it."""
    host, port = told_text(attributes, names.SERVER), told_count(attributes, names.PORT)
    if host:
        return host if port in (None, 80, 443) else f"{host}:{port}"
    return told_text(attributes, names.PROVIDER).lower()


def _finish(value: Any) -> str:
    reason = value[0] if isinstance(value, list) and value else value
    if not isinstance(reason, str):
        return ""
    reason = reason.replace("-", "_")
    return _FINISH.get(reason, reason)


def _server_ms(attributes: Mapping[str, Any]) -> dict[str, float]:
    """What the service itself says that it took, in milliseconds."""
    said: Iterator[tuple[str, Any]] = ((ours, attributes.get(name)) for name, ours in names.SERVER_SECONDS.items())
    return {ours: seconds * 1000.0 for ours, seconds in said if _is_time(seconds)}
