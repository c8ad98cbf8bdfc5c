"""Files, read and written whole; and what a person is told of one where that cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hotloop.errors import ConfigError
from hotloop.fields import in_plain_words

T = TypeVar("T")


def read_text(path: Path) -> str:
    """The text of a file. Raises ConfigError for what is no readable UTF-8 file."""
    with _telling(path):
        return path.read_text(encoding="utf-8-sig")


def json_lines(path: Path, kind: type[T] | Any = Any) -> list[tuple[str, T]]:
    """The values of this type in a file with one a line, each after its place: "file:line".

    Raises ConfigError, with the place, for a file that cannot be read and a line that holds anything else.
    """
    with _telling(path):
        lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").splitlines()
    decoder = msgspec.json.Decoder(kind)
    places = ((f"{path}:{number}", line) for number, line in enumerate(lines, 1) if line.strip())
    return [(place, _decoded(decoder, line, place)) for place, line in places]


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, whole or not at all. Raises ConfigError where it cannot be written."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(data)
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):  # where nothing may be written, nothing may be removed either
            partial.unlink(missing_ok=True)
        raise ConfigError(f"The file {path} cannot be written: {error.strerror}.") from None


def _decoded(decoder: msgspec.json.Decoder[T], line: bytes, place: str) -> T:
    try:
        return decoder.decode(line)
    except msgspec.ValidationError as error:
        what, where = in_plain_words(error)
        raise ConfigError(f"{place}: {where}: {what}." if where else f"{place}: {what}.") from None
    except msgspec.DecodeError as error:
        raise ConfigError(f"{place}: not valid JSON: {error}.") from None


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    """Why the file cannot be read, as a ConfigError."""
    if path.is_dir():
        raise ConfigError(f"The path {path} is a folder; give a file in it.")
    try:
        yield
    except FileNotFoundError:
        raise ConfigError(f"There is no file {path}.") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"Byte {error.start + 1} of {path} is not UTF-8; save the file as UTF-8.") from None
    except OSError as error:
        raise ConfigError(f"The file {path} cannot be read: {error.strerror}.") from None
