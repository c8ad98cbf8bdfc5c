"""Chunks that differ only in their text, read many at a time.

The chunks of one stream are mostly the same bytes around another piece of text. Once one of them was decoded, a run of
its like in one network read is taken apart by one regular expression, and put together again to see that nothing was
missed, for half of what decoding each costs: the busier the loop, the more comes in one read, and the less a token
costs.
"""

from __future__ import annotations

import re

import msgspec

from hotloop.models.wire.sse import BETWEEN

_texts = re.compile(rb'"content": ?"([^"\\\x00-\x1f]+)"').findall  # texts whose characters stand for themselves


class Likeness:
    """What stands before and after the text in the chunks of a stream."""

    __slots__ = ("_after", "_before", "_between")

    def __init__(self, before: bytes, after: bytes) -> None:
        self._before = before
        self._after = after
        self._between = after + BETWEEN + before

    def texts(self, events: bytes, at: int = 0) -> tuple[bytes, list[str], bytes]:
        """The events from `at` on as those before a run of like ones, the texts of the run, and the events after it.

        Without any texts where the first and the last like event have others between them. Nothing of the size of the
        run is copied but once, to see that it is what was found: a reply may be long.
        """
        start, end = events.find(self._before, at), events.rfind(self._after, at) + len(self._after)
        before, after = events[at:start], events[end:]
        if start < 0 or (before and not before.endswith(BETWEEN)) or (after and not after.startswith(BETWEEN)):
            return events[at:], [], b""
        found = _texts(events, start, end)
        run = self._between.join(found)
        first = start + len(self._before)
        if not found or first + len(run) + len(self._after) != end or not events.startswith(run, first):
            return events[at:], [], b""
        try:
            return before[:-2], b"\n".join(found).decode().split("\n"), after[2:]
        except UnicodeDecodeError:
            return events[at:], [], b""


def likeness(event: bytes, text: str) -> Likeness | None:
    """The likeness of an event whose one effect was this text; None if the text is not plain to see in it."""
    for field in (b'"content":', b'"content": '):
        value = field + msgspec.json.encode(text)
        if b'"message"' in event:
            return None  # its text may be all of the text so far
        if event.startswith(b"data: ") and event.count(b'"content"') == event.count(value) == 1 and b"\n" not in event:
            start = event.index(value)
            return Likeness(event[: start + len(field) + 1], event[start + len(value) - 1 :])
    return None
