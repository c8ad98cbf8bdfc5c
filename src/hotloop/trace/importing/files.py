"""Files of traces: OTLP JSON, one export request or one a line, compressed or not."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from hotloop.errors import ConfigError
from hotloop.trace.importing.otlp import spans_of, trace_ids_of
from hotloop.trace.importing.records import records_of_spans, records_of_trace
from hotloop.trace.importing.span import Span
from hotloop.trace.record import TraceRecord

_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"


def read_otlp(path: str | Path, content: bool = False) -> Iterator[TraceRecord]:
    """The runs in a file of OTLP JSON, in the order in which their traces are complete in it.

    The file is read twice: first to know how many spans each trace has, so that no more is held than what is not
    complete. What was said in a run becomes digests; with `content` the texts are there, too, without secrets. Raises
    ConfigError, with the file and the line, for what cannot be read.
    """
    path = Path(path)
    missing = Counter(trace_id for document, place in _documents(path) for trace_id in trace_ids_of(document, place))
    held: dict[str, list[Span]] = {}
    for document, place in _documents(path):
        for span in spans_of(document, place):
            held.setdefault(span.trace_id, []).append(span)
            missing[span.trace_id] -= 1
            if not missing[span.trace_id]:
                yield from records_of_trace(span.trace_id, held.pop(span.trace_id), content)
    for trace_id, spans in held.items():  # of a file that was written to meanwhile
        yield from records_of_trace(trace_id, spans, content)


def records_of(document: bytes | str | dict[str, Any], content: bool = False) -> list[TraceRecord]:
    """The runs in one export request of OTLP JSON, decoded or not. Raises ConfigError for what is none."""
    spans = spans_of(document.encode() if isinstance(document, str) else document)
    return list(records_of_spans(spans, content))


def _documents(path: Path) -> Iterator[tuple[bytes, str]]:
    """The export requests in a file, each with its place: one a line, or one of which the first line is only a part."""
    with _opened(path) as file:
        begun = False
        for number, line in enumerate(file, 1):
            line = line.removeprefix(_BOM).strip()
            if not line:
                continue
            if not begun and line.startswith(b"{") and not line.endswith(b"}"):
                yield line + file.read(), str(path)
            else:
                yield line, f"{path}:{number}"
            begun = True


@contextmanager
def _opened(path: Path) -> Iterator[BufferedIOBase]:
    """The file, decompressed. Raises ConfigError for one that cannot be read."""
    if path.is_dir():
        raise ConfigError(f"The path {path} is a folder; give a file in it.")
    try:
        with path.open("rb") as file:
            compressed = file.read(len(_GZIP)) == _GZIP
            file.seek(0)
            with gzip.open(file) if compressed else file as plain:
                yield plain
    except FileNotFoundError:
        raise ConfigError(f"There is no file {path}.") from None
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"The file {path} cannot be read: {error}.") from None
