"""Server-sent events: bytes in, whole events out, and the data in them.

https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream, with what servers get wrong
allowed: no space after the colon, a last event without its blank line, CR line ends, a byte order mark.
"""

from __future__ import annotations

_BOM = b"\xef\xbb\xbf"
BETWEEN = b"\n\n"


class EventSource:
    """Cuts a byte stream into whole events; work is linear in the bytes fed."""

    __slots__ = ("_cr", "_tail")

    def __init__(self) -> None:
        self._tail = bytearray()
        self._cr = False

    @property
    def held(self) -> int:
        """Bytes of an event that is not complete yet."""
        return len(self._tail)

    def is_one(self, data: bytes) -> bool:
        """True if these bytes are one whole event of one plain line: `data: ...`, as a token in a read of its own."""
        return (
            data.endswith(BETWEEN)
            and data.startswith(b"data: ")
            and data.find(b"\n") == len(data) - 2
            and b"\r" not in data
            and not self._tail
            and not self._cr
        )

    def feed(self, data: bytes) -> bytes:
        """The events that these bytes complete, with a blank line between them and LF line ends; b"" if none."""
        if self._cr or b"\r" in data:
            data = self._line_feeds(data)
        tail = self._tail
        if not tail:
            end = data.rfind(BETWEEN)
            if end < 0:
                tail += data
                return b""
        else:
            seen = len(tail) - 1
            tail += data
            end = tail.rfind(BETWEEN, seen)
            if end < 0:
                return b""
            data = bytes(tail)
        if tail or end + 2 < len(data):
            self._tail = bytearray(data[end + 2 :])
        return data[:end]

    def close(self) -> bytes:
        """A last event that the stream did not end with a blank line."""
        rest, self._tail = bytes(self._tail).strip(b"\n"), bytearray()
        return rest

    def _line_feeds(self, data: bytes) -> bytes:
        """CRLF and CR as LF; an LF after a CR that ended the last bytes belongs to it."""
        if not data:
            return data
        if self._cr:
            data = data.removeprefix(b"\n")
        self._cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def next_event(events: bytes, at: int) -> tuple[bytes, int]:
    """The event that begins at `at`, and where the one after it does."""
    end = events.find(BETWEEN, at)
    return (events[at:], len(events)) if end < 0 else (events[at:end], end + len(BETWEEN))


def payloads(events: bytes) -> list[bytes]:
    """The data of each of these events."""
    if events.startswith(b"data: "):
        found = events[6:].split(b"\n\ndata: ")
        if b"\n" not in b"".join(found):
            return found  # one plain line each, as nearly every server writes them
    return [_payload(event) for event in events.split(BETWEEN) if event]


def _payload(event: bytes) -> bytes:
    lines = event.lstrip(b"\n").removeprefix(_BOM).split(b"\n")
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
