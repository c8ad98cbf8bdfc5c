"""The body of an HTTP request, which is of a length that was told, or comes in chunks, as those of Node.js do."""

from __future__ import annotations

from email.message import Message
from io import BufferedIOBase

_LONGEST_LINE = 1024  # bytes, of a chunk's size or of a trailer


class BadBody(Exception):
    """A body that is not read: `status` is what to answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def read_body(headers: Message, file: BufferedIOBase, most: int) -> bytes:
    """The body that follows these headers. Raises BadBody for one that has more than so many bytes, or no end."""
    if headers.get("transfer-encoding", "").strip().lower() == "chunked":
        return _chunks(file, most)
    size = headers.get("content-length", "")
    if not (size.isascii() and size.isdecimal()):
        raise BadBody(411, "The request does not say how long its body is.")
    return _read(file, int(size), most)


def _chunks(file: BufferedIOBase, most: int) -> bytes:
    body = bytearray()
    while size := _size(file.readline(_LONGEST_LINE)):
        body += _read(file, size, most - len(body))
        file.readline(_LONGEST_LINE)
    while file.readline(_LONGEST_LINE).strip():
        pass  # trailers
    return bytes(body)


def _size(line: bytes) -> int:
    try:
        return int(line.partition(b";")[0], 16)
    except ValueError:
        raise BadBody(400, "A chunk of the body does not say how long it is.") from None


def _read(file: BufferedIOBase, size: int, most: int) -> bytes:
    if not 0 <= size <= most:
        raise BadBody(413, "The body is too large; have fewer spans sent at a time.")
    data = file.read(size)
    if len(data) < size:
        raise BadBody(400, "The body ended before it was complete.")
    return data
