"""Streams for the tests of the wire: chunks as services write them, and what a `ChatStream` makes of them."""

from __future__ import annotations

import json
from typing import Any

from hotloop.errors import ModelError
from hotloop.events import CallOpened, CallSealed, Event, ReasoningDelta, TextDelta
from hotloop.models.reply import Reply
from hotloop.models.wire.chatstream import ChatStream

DONE = b"data: [DONE]\n\n"


def data(value: Any) -> bytes:
    """One event with this JSON."""
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    """One chunk with one choice."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return data({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]} | more)


def text(content: Any, **more: Any) -> bytes:
    return chunk({"content": content}, **more)


def item(arguments: Any = ..., name: Any = ..., id: Any = ..., index: Any = ..., **more: Any) -> dict[str, Any]:
    """One item of `tool_calls` with what is given."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not ...}
    labels = {key: value for key, value in (("index", index), ("id", id)) if value is not ...}
    return labels | {"type": "function", "function": function} | more


def calls(*items: dict[str, Any]) -> bytes:
    """One chunk with these items."""
    return chunk({"tool_calls": list(items)})


def end(finish: str = "tool_calls", **more: Any) -> bytes:
    return chunk(finish=finish, **more)


def parse(*reads: bytes, max_tokens: int | None = None) -> tuple[list[Event], Reply | ModelError]:
    """All events of a body in these reads, and the reply or the error."""
    stream = ChatStream(max_tokens)
    events = [event for read in reads for event in stream.feed(read)] + stream.close()
    return events, stream.error or stream.reply()


def reply(*reads: bytes, max_tokens: int | None = None) -> Reply:
    """The reply in these reads; fails if there is none."""
    result = parse(*reads, max_tokens=max_tokens)[1]
    assert isinstance(result, Reply), result
    return result


def error(*reads: bytes, max_tokens: int | None = None) -> ModelError:
    """The error in these reads; fails if there is none."""
    result = parse(*reads, max_tokens=max_tokens)[1]
    assert isinstance(result, ModelError), result
    return result


def called(*reads: bytes, max_tokens: int | None = None) -> list[tuple[str, Any]]:
    """The calls of the reply in these reads, whose events must tell the same."""
    events, result = parse(*reads, max_tokens=max_tokens)
    assert isinstance(result, Reply), result
    sealed = sorted((each for each in events if isinstance(each, CallSealed)), key=lambda each: each.slot)
    assert [(each.name, each.arguments) for each in sealed] == [(each.name, each.arguments) for each in result.calls]
    assert len({each.slot for each in sealed}) == len(sealed)
    return [(each.name, json.loads(each.arguments) if each.whole else each.arguments) for each in result.calls]


def merged(events: list[Event]) -> list[Event]:
    """The events with neighbouring pieces of text and of reasoning joined."""
    found: list[Event] = []
    for event in events:
        last = found[-1] if found else None
        if isinstance(event, TextDelta | ReasoningDelta) and type(last) is type(event):
            found[-1] = type(event)(last.text + event.text)  # type: ignore[union-attr]
        else:
            found.append(event)
    return found


def call_events(events: list[Event]) -> list[Event]:
    """Only what was told of calls."""
    return [event for event in events if isinstance(event, CallOpened | CallSealed)]
