"""Turns that are not as they were kept, made whole, so that a conversation can always go on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import dropwhile, pairwise
from typing import Any, Literal
from zlib import crc32

import msgspec

from hotloop.context.sessions.record import StoredTurn

Row = tuple[int, float, bytes, Any]
"""A turn as it was read: its number, when it was, its messages, and their checksum as it was kept."""

_Span = tuple[int, int]
_SHOWN = 10  # spans of turns that are told
_CANCELLED = b'{"role":"tool","tool_call_id":%b,"content":"{\\"error\\":\\"The call was cancelled.\\"}"}'
_LOST = b'{"role":"assistant","content":"The answer was lost."}'


class _Function(msgspec.Struct):
    name: str
    arguments: str


class _Call(msgspec.Struct):
    id: str
    function: _Function


class _Message(msgspec.Struct):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Any] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str = ""

    @property
    def calls(self) -> list[str]:
        return [call.id for call in self.tool_calls or ()]


_Read = tuple[_Message, bytes]
_split = msgspec.json.Decoder(list[msgspec.Raw]).decode
_parse = msgspec.json.Decoder(_Message).decode


def checksum(number: int, messages: bytes) -> int:
    """What tells that these messages were kept by us, as turn `number`."""
    return crc32(messages, number)


def whole_turns(read: Callable[[], Iterable[Row]], first: int, last: int) -> tuple[list[StoredTurn], tuple[str, ...]]:
    """The turns from number `first` to `last`, as far as there are any, whole; and what was wrong with them, in words.

    `read` gives them in the order of their numbers. Where nothing is wrong, it is called once and nothing is parsed.
    """
    # Row by row: thousands of tuples that live at the same time would have the garbage collector look at all there is.
    turns = [
        StoredTurn(number, at, messages) for number, at, messages, kept in read() if crc32(messages, number) == kept
    ]
    if len(turns) == max(last + 1 - first, 0):
        return turns, ()
    return _repaired(list(read()), first, last)


def mended(messages: bytes) -> bytes:
    """The messages of a turn, whole: each call has one result, each result its call, and the last word is an answer.

    Messages that can be read stay as they are, others go. b"" if no prompt is left.
    """
    parts = _parts(messages)
    read = [(message, part) for part in parts if (message := _message(part))]
    whole = _whole(dropwhile(lambda each: each[0].role in ("assistant", "tool"), read))
    return messages if whole and whole == parts else b",".join(whole)


def _repaired(rows: Sequence[Row], first: int, last: int) -> tuple[list[StoredTurn], tuple[str, ...]]:
    turns: list[StoredTurn] = []
    found: dict[str, list[_Span]] = defaultdict(list)
    numbers = (first - 1, *(row[0] for row in rows), last + 1)
    found["missing"] = [(before + 1, after - 1) for before, after in pairwise(numbers) if after - before > 1]
    for row in rows:
        number, at, *_ = row
        messages, fault = _restored(row)
        if messages:
            turns.append(StoredTurn(number, at, messages))
        if fault:
            found[fault].append((number, number))
    return turns, tuple(f"{_named(spans)} {fault}" for fault, spans in found.items() if spans)


def _restored(row: Row) -> tuple[bytes, str]:
    """The messages of a turn, whole, and what was wrong with them."""
    number, _, messages, kept = row
    if crc32(messages, number) == kept:
        return messages, ""
    whole = mended(messages)
    if not whole:
        return whole, "unreadable and left out"
    return whole, "not as kept, but whole" if whole == messages else "broken and mended"


def _named(spans: Sequence[_Span]) -> str:
    """These numbers of turns, in words."""
    joined = [spans[0]]
    for begin, end in spans[1:]:
        if begin == joined[-1][1] + 1:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((begin, end))
    told = ", ".join(f"{begin}" if begin == end else f"{begin} to {end}" for begin, end in joined[:_SHOWN])
    turns = "turn" if joined[0][0] == joined[-1][1] else "turns"
    return f"{turns} {told}{' and more' * (len(joined) > _SHOWN)}"


def _whole(messages: Iterable[_Read]) -> list[bytes]:
    whole: list[bytes] = []
    calls: list[str] = []
    answered = True
    for message, raw in messages:
        if message.role == "tool":
            if message.tool_call_id in calls:
                calls.remove(message.tool_call_id)
                whole.append(raw)
            continue
        whole += map(_cancelled, calls)
        whole.append(raw)
        calls = message.calls
        answered = message.role == "assistant" and not calls
    whole += map(_cancelled, calls)
    return whole if answered else [*whole, _LOST]


def _cancelled(call_id: str) -> bytes:
    return _CANCELLED % msgspec.json.encode(call_id)


def _parts(messages: bytes) -> list[bytes]:
    """Each message as it is; none if they are no JSON."""
    try:
        messages.decode()
        return [bytes(part) for part in _split(b"[%b]" % messages)]
    except (ValueError, RecursionError):
        return []


def _message(part: bytes) -> _Message | None:
    """A message, if it is one that can be sent."""
    try:
        message = _parse(part)
    except (ValueError, RecursionError):
        return None
    calls = message.calls
    says_something = bool(calls) or message.content is not None
    return message if says_something and len(set(calls)) == len(calls) else None
