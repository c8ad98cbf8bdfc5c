"""Recorded runs as files: handed out in the formats of other programs, and taken in from them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec
from cyclopts import Parameter
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from hotloop.commands.console import messages, write_json
from hotloop.commands.options import Flag, Json, Name
from hotloop.commands.selection import Selection, StoreFile
from hotloop.trace.lines import are_lines, read_lines, to_lines
from hotloop.trace.record import TraceRecord
from hotloop.trace.store import Added, TraceStore
from hotloop.words import counted

Format: TypeAlias = Literal["jsonl", "chrome"]
_Files: TypeAlias = Annotated[list[Path], Parameter(metavar="FILE", negative=())]

_ANY = Selection()
_SOON = 1.0  # seconds that are no reason for a progress bar


def export(
    run: Name | None = None,
    /,
    *,
    selection: Selection = _ANY,
    to: Annotated[Format, Parameter(name="--format")] = "jsonl",
) -> int:
    """Print runs for another program: as lines of JSON that import reads, or as a trace that Perfetto opens.

    Example: hotloop trace export --since 1d > runs.jsonl

    Parameters
    ----------
    run
        The id of one run, or how it begins. [default: all that are selected]
    to
        jsonl: a record a line. chrome: one trace for chrome://tracing and https://ui.perfetto.dev.
    """
    records = selection.records(run)
    sys.stdout.flush()
    for piece in _FORMATS[to](records):
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
    return 0


def import_(files: _Files, /, *, path: StoreFile = None, content: Flag = False, as_json: Json = False) -> int:
    """Add the runs in files to those that are recorded: all of them, or none if a file cannot be read.

    A run that is there already is not added again.

    Example: hotloop trace import runs.jsonl

    Parameters
    ----------
    files
        Lines of JSON from export, or OpenTelemetry traces (OTLP JSON) of agents of any framework.
    path
        The file to add them to. [default: the one in your state folder]
    content
        Keep what was said in OpenTelemetry traces, too, without secrets, instead of digests of it.
    as_json
        Print one object with how many there were instead.
    """
    with _bar(files) as done:
        added = TraceStore(path).add(record for file in files for record in _read(file, content, done))
    if as_json:
        write_json(added._asdict())
    else:
        messages().print(_told(added), markup=False, soft_wrap=True)
    return 0


def _lines(records: Iterable[TraceRecord]) -> Iterator[bytes]:
    return to_lines(records)


def _chrome(records: Iterable[TraceRecord]) -> Iterator[bytes]:
    from hotloop.trace.chrome import chrome_trace

    yield msgspec.json.encode(chrome_trace(records))
    yield b"\n"


_FORMATS: dict[Format, Callable[[Iterable[TraceRecord]], Iterator[bytes]]] = {"jsonl": _lines, "chrome": _chrome}


def _read(file: Path, content: bool, done: Callable[[int], None]) -> Iterator[TraceRecord]:
    if are_lines(file):
        yield from read_lines(file, done)
        return
    from hotloop.trace.importing.files import read_otlp

    yield from read_otlp(file, content)
    done(file.stat().st_size)


@contextmanager
def _bar(files: Iterable[Path]) -> Iterator[Callable[[int], None]]:
    """A function that is told of bytes that were read, and shows how many of all, if reading them takes long."""
    console, whole = messages(), sum(file.stat().st_size for file in files if file.is_file())
    columns = (TextColumn("importing"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task, start = progress.add_task("", total=whole, visible=False), time.monotonic()

        def done(size: int) -> None:
            progress.update(task, advance=size, visible=time.monotonic() - start > _SOON)

        yield done


def _told(added: Added) -> str:
    known = added.read - added.new
    were = f", {counted(known, 'run')} {'was' if known == 1 else 'were'} there already" if known else ""
    return f"Added: {counted(added.new, 'run')}{were}."
