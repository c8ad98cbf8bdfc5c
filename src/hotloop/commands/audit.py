"""`hotloop audit`: what an audit log is worth."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from hotloop.commands.console import messages, results, write_json
from hotloop.commands.options import Json
from hotloop.errors import ConfigError
from hotloop.tools.audit.verification import Verification
from hotloop.tools.audit.verification import verify as check
from hotloop.visible import one_line
from hotloop.words import counted

_HELP = """Look into audit logs: what tools did, for whom, and who allowed it.

Example: hotloop audit verify audit.jsonl"""

_HINT = (
    "Keep the head in another place: --expect HEAD then also finds a log that was written anew or cut with its head."
)
_LISTED = 100  # faults
_SOON = 1.0  # seconds that are no reason for a progress bar

audit = App(name="audit", help=_HELP)


@audit.command
def verify(
    file: Path,
    /,
    *,
    expect: Annotated[str | None, Parameter(metavar="HASH")] = None,
    as_json: Json = False,
) -> int:
    """Find out whether an audit log was changed, or lacks records.

    Its exit code is 0 if it holds, 1 if it does not, 2 if there is no such log.

    Example: hotloop audit verify audit.jsonl --expect 3f0c...

    Parameters
    ----------
    file
        The log. Its head is read from FILE.head.
    expect
        A head that this command printed for the log before: it must still be in it.
    as_json
        Print one object with all faults instead.
    """
    if expect is not None and not re.fullmatch(r"[0-9a-f]{64}", expect):
        raise ConfigError(f"{expect!r} is no hash; --expect takes the 64 digits that were printed as the log's head.")
    with _bar() as progress:
        found = check(file, expect, progress)
    if as_json:
        write_json(_as_dict(file, found))
    else:
        _show(file, found)
    return int(not found.held)


@contextmanager
def _bar() -> Iterator[Callable[[int, int], None]]:
    """A function that shows how many bytes of how many were read, if reading them takes long."""
    console = messages()
    columns = (TextColumn("verifying"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", visible=False)
        start = time.monotonic()

        def show(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total, visible=time.monotonic() - start > _SOON)

        yield show


def _show(file: Path, found: Verification) -> None:
    console = results()
    console.print(_verdict(file, found), style="green" if found.held else "red", markup=False, soft_wrap=True)
    for line, sentence in found.faults[:_LISTED]:
        console.print(f"  {f'line {line:,}: ' if line else ''}{one_line(sentence)}", markup=False, soft_wrap=True)
    if len(found.faults) > _LISTED:
        console.print(f"  ... and {len(found.faults) - _LISTED:,} more")
    console.print(_table(found))
    if found.held:
        console.print(f"[dim]{_HINT}[/]", soft_wrap=True)


def _verdict(file: Path, found: Verification) -> str:
    if found.held:
        return f"{file} holds: no record was changed, none is missing."
    return f"{file} does not hold: {counted(len(found.faults), 'fault')}."


def _table(found: Verification) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 3, 0, 0))
    table.add_row("records", f"{found.records:,}")
    table.add_row("open calls", f"{found.open:,}")
    for name, value in (("first", found.first), ("last", found.last), ("head", found.head)):
        table.add_row(name, escape(one_line(value)) or "-")
    return table


def _as_dict(file: Path, found: Verification) -> dict[str, object]:
    faults = [fault._asdict() for fault in found.faults]
    return {"file": str(file), "held": found.held} | msgspec.structs.asdict(found) | {"faults": faults}
