"""Files of traces: OTLP JSON, one export request or one a line, compressed or not."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hotloop.errors import ConfigError
from hotloop.trace.importing.otlp import spans_of
from hotloop.trace.importing.records import records_of_spans
from hotloop.trace.importing.span import Span
from hotloop.trace.record import TraceRecord

_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"


def read_otlp(path: str | Path, content: bool = False) -> Iterator[TraceRecord]:
    """The runs in a file of OTLP JSON, in the order in which their traces begin in it.

    The whole file is read first, for the spans of a trace may be anywhere in it. What was said in a run becomes
    digests; with `content` the texts are there, too, without secrets. Raises ConfigError, with the file and the line,
    for what cannot be read.
    """
    yield from records_of_spans(_read(Path(path)), content)


def records_of(document: bytes | str | dict[str, Any], content: bool = False) -> list[TraceRecord]:
    """The runs in one export request of OTLP JSON, decoded or not. Raises ConfigError for what is none."""
    spans = spans_of(document.encode() if isinstance(document, str) else document)
    return list(records_of_spans(spans, content))


def _read(path: Path) -> Iterator[Span]:
    lines = _bytes(path).removeprefix(_BOM).splitlines()
    if len(lines) > 1 and not _stands_alone(lines):
        yield from spans_of(b"\n".join(lines), str(path))
        return
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield from spans_of(line, f"{path}:{number}")


def _stands_alone(lines: list[bytes]) -> bool:
    """Whether the first line that is not empty is all of an object, and not just the beginning of one."""
    first = next((line.strip() for line in lines if line.strip()), b"")
    return first.startswith(b"{") and first.endswith(b"}")


def _bytes(path: Path) -> bytes:
    if path.is_dir():
        raise ConfigError(f"The path {path} is a folder; give a file in it.")
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data.startswith(_GZIP) else data
    except FileNotFoundError:
        raise ConfigError(f"There is no file {path}.") from None
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"The file {path} cannot be read: {error}.") from None
