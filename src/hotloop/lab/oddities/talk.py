"""A streamed reply taken apart: for each token the chunks that are sent with it, and at last those that end it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

Chunk = dict[str, Any]
Talk = list[list[Chunk | bytes]]
"""Chunks, and events that are none, as they are written."""

Oddity = Callable[[Talk], None]
Part = tuple[Chunk, dict[str, Any]]
"""A chunk, and the item of a call in it."""

_DATA = b"data: "
_BETWEEN = b"\n\n"


def talk_of(pieces: Sequence[bytes]) -> Talk:
    """The pieces of a stream, taken apart."""
    return [[_event(each) for each in piece.split(_BETWEEN) if each] for piece in pieces]


def pieces_of(talk: Talk) -> list[bytes]:
    """The pieces again."""
    return [b"".join(map(_written, piece)) for piece in talk]


def chunks(talk: Talk) -> Iterator[Chunk]:
    """All chunks, in their order."""
    for piece in talk:
        yield from (event for event in piece if isinstance(event, dict))


def choices(talk: Talk) -> Iterator[dict[str, Any]]:
    """The choice in each chunk that has one."""
    for chunk in chunks(talk):
        yield from chunk["choices"][:1]


def calls(talk: Talk) -> list[list[Part]]:
    """The items of each call, first the one that names it."""
    found: dict[int, list[Part]] = {}
    for chunk in chunks(talk):
        for choice in chunk["choices"]:
            for item in choice["delta"].get("tool_calls", ()):
                found.setdefault(item["index"], []).append((chunk, item))
    return list(found.values())


def arguments_of(parts: Sequence[Part]) -> str:
    """The arguments that these items of a call make up."""
    return "".join(item["function"]["arguments"] for _, item in parts)


def silence(parts: Sequence[Part]) -> None:
    """Leave the chunks of these items without anything to say."""
    for chunk, _ in parts:
        chunk["choices"][0]["delta"] = {}


def after(talk: Talk, chunk: Chunk, *more: Chunk) -> None:
    """Say more right after a chunk."""
    for piece in talk:
        for place, event in enumerate(piece):
            if event is chunk:
                piece[place + 1 : place + 1] = more
                return


def like(chunk: Chunk, delta: dict[str, Any]) -> Chunk:
    """A chunk of the same reply that says `delta`."""
    return {**chunk, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]}


def _event(data: bytes) -> Chunk | bytes:
    payload = data.removeprefix(_DATA)
    return msgspec.json.decode(payload) if payload.startswith(b"{") else data + _BETWEEN


def _written(event: Chunk | bytes) -> bytes:
    return event if isinstance(event, bytes) else _DATA + msgspec.json.encode(event) + _BETWEEN
