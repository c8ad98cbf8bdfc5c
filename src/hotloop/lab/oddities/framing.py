"""Streams whose bytes are cut up or dressed in another way; the pieces in, the pieces out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Framing = Callable[[Sequence[bytes]], list[bytes]]


def _no_space(pieces: Sequence[bytes]) -> list[bytes]:
    return [piece.replace(b"data: ", b"data:") for piece in pieces]


def _crlf(pieces: Sequence[bytes]) -> list[bytes]:
    return [piece.replace(b"\n", b"\r\n") for piece in pieces]


def _bom(pieces: Sequence[bytes]) -> list[bytes]:
    return [b"\xef\xbb\xbf" + pieces[0], *pieces[1:]]


def _many_lines(pieces: Sequence[bytes]) -> list[bytes]:
    return [b"\n\n".join(map(_two_lines, piece.split(b"\n\n"))) for piece in pieces]


def _split_reads(pieces: Sequence[bytes]) -> list[bytes]:
    shifted, held = [], b""
    for piece in pieces[:-1]:
        at = next((place for place, byte in enumerate(piece) if byte & 0xC0 == 0x80), len(piece) // 2)
        shifted.append(held + piece[:at])
        held = piece[at:]
    return [*shifted, held + pieces[-1]]


def _buffered(pieces: Sequence[bytes]) -> list[bytes]:
    return [*[b""] * (len(pieces) - 1), b"".join(pieces)]


def _two_lines(event: bytes) -> bytes:
    before, comma, after = event.partition(b',"')  # what stands in a text has a backslash before its quote
    return before + b',\ndata: "' + after if comma and event.startswith(b"data: ") else event


FRAMINGS: dict[str, tuple[str, Framing]] = {
    "no-space": ("There is no space after `data:`.", _no_space),
    "crlf": ("Lines end in CRLF.", _crlf),
    "bom": ("The stream begins with a byte order mark.", _bom),
    "many-lines": ("An event has its data on two lines.", _many_lines),
    "split-reads": (
        "Reads end in the middle of an event, and of a character if it has any of more than one byte.",
        _split_reads,
    ),
    "buffered": ("All tokens come at the end, in one read.", _buffered),
}
