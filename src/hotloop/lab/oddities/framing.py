"""Streams whose bytes are cut up or dressed in another way; the pieces in, the pieces out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Framing = Callable[[Sequence[bytes]], list[bytes]]


def no_space(pieces: Sequence[bytes]) -> list[bytes]:
    """There is no space after `data:`."""
    return [piece.replace(b"data: ", b"data:") for piece in pieces]


def crlf(pieces: Sequence[bytes]) -> list[bytes]:
    """Lines end in CRLF."""
    return [piece.replace(b"\n", b"\r\n") for piece in pieces]


def bom(pieces: Sequence[bytes]) -> list[bytes]:
    """The stream begins with a byte order mark."""
    return [b"\xef\xbb\xbf" + pieces[0], *pieces[1:]]


def many_lines(pieces: Sequence[bytes]) -> list[bytes]:
    """An event has its data on two lines."""
    return [b"\n\n".join(map(_two_lines, piece.split(b"\n\n"))) for piece in pieces]


def split_reads(pieces: Sequence[bytes]) -> list[bytes]:
    """Reads end in the middle of an event, and of a character if it has any of more than one byte."""
    shifted, held = [], b""
    for piece in pieces[:-1]:
        at = next((place for place, byte in enumerate(piece) if byte & 0xC0 == 0x80), len(piece) // 2)
        shifted.append(held + piece[:at])
        held = piece[at:]
    return [*shifted, held + pieces[-1]]


def buffered(pieces: Sequence[bytes]) -> list[bytes]:
    """All tokens come at the end, in one read."""
    return [*[b""] * (len(pieces) - 1), b"".join(pieces)]


def _two_lines(event: bytes) -> bytes:
    before, comma, after = event.partition(b',"')  # what stands in a text has a backslash before its quote
    return before + b',\ndata: "' + after if comma and event.startswith(b"data: ") else event


FRAMINGS: tuple[Framing, ...] = (no_space, crlf, bom, many_lines, split_reads, buffered)
