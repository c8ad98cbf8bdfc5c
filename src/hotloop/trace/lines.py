"""Records as lines of JSON, one a run: how they go from one store to another, and to other programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from hotloop.errors import ConfigError
from hotloop.fields import in_plain_words
from hotloop.trace.record import TraceRecord

_encode = msgspec.json.Encoder(enc_hook=str).encode
_decode = msgspec.json.Decoder(TraceRecord).decode
_first = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def to_lines(records: Iterable[TraceRecord]) -> Iterator[bytes]:
    """A line for each record."""
    return (_encode(record) + b"\n" for record in records)


def are_lines(path: Path) -> bool:
    """Whether a file begins with the line of a record. Raises ConfigError for one that cannot be read."""
    with _opened(path) as file:
        first = next(filter(bytes.strip, file), b"")
    try:
        return "trace_id" in _first(first)
    except msgspec.DecodeError:
        return False


def read_lines(path: Path, done: Callable[[int], None] | None = None) -> Iterator[TraceRecord]:
    """The records in a file, one after the other; `done` is told of the bytes of each line.

    Raises ConfigError, with the file and the line, for a line that is no record.
    """
    with _opened(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _record(line, f"{path}:{number}")
            if done is not None:
                done(len(line))


def _record(line: bytes, place: str) -> TraceRecord:
    try:
        return _decode(line)
    except msgspec.ValidationError as error:
        what, where = in_plain_words(error, TraceRecord)
        raise ConfigError(f"{place}: {f'{where}: ' if where else ''}{what}.") from None
    except msgspec.DecodeError as error:
        raise ConfigError(f"{place}: not valid JSON: {error}.") from None


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise ConfigError(f"The file {path} cannot be read: {error.strerror}.") from None
