"""Server-sent events: bytes in, the data of whole events out.

https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream, with what servers get wrong
allowed: no space after the colon, a last event without its blank line, CR line ends, a byte order mark.
"""

from __future__ import annotations

_BOM = b"\xef\xbb\xbf"


class EventSource:
    """Splits a byte stream into the `data` payloads of its events; work is linear in the bytes fed."""

    __slots__ = ("_cr", "_tail")

    def __init__(self) -> None:
        self._tail = bytearray()
        self._cr = False

    def feed(self, data: bytes) -> list[bytes]:
        """The payloads of all events that these bytes complete."""
        if self._cr or b"\r" in data:
            data = self._line_feeds(data)
        tail = self._tail
        if tail:
            seen = len(tail) - 1
            tail += data
            end = tail.rfind(b"\n\n", seen)
            if end < 0:
                return []
            data = bytes(tail)
        else:
            end = data.rfind(b"\n\n")
            if end < 0:
                tail += data
                return []
        self._tail = bytearray(data[end + 2 :])
        if data.startswith(b"data: "):
            payloads = data[6:end].split(b"\n\ndata: ")
            if data.count(b"\n", 0, end) == 2 * len(payloads) - 2:
                return payloads  # one plain line each, as nearly every server writes them
        return [_payload(block) for block in data[:end].split(b"\n\n") if block]

    def close(self) -> list[bytes]:
        """The payload of a last event that the stream did not end with a blank line."""
        rest, self._tail = bytes(self._tail).strip(b"\n"), bytearray()
        return [_payload(rest)] if rest else []

    def _line_feeds(self, data: bytes) -> bytes:
        """CRLF and CR as LF; a CR at the end waits for what follows it."""
        if self._cr:
            data = b"\r" + data
        self._cr = data.endswith(b"\r")
        if self._cr:
            data = data[:-1]
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _payload(block: bytes) -> bytes:
    lines = block.removeprefix(_BOM).split(b"\n")
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
