"""Does an audit log still say what was written to it? Every record is held against itself and the one before."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from hotloop.errors import AuditError
from hotloop.tools.audit.records import (
    GENESIS,
    LONGEST,
    Head,
    WrittenRecord,
    head_fault,
    head_path,
    locked,
    missing,
    parse_head,
    read_record,
)

_STRIDE = 4096  # lines between two reports of progress


class Fault(NamedTuple):
    """What is wrong, and in which line; line 0 is the log as a whole."""

    line: int
    sentence: str


class Verification(msgspec.Struct, frozen=True):
    """What a log holds, from the `first` to the `last` time, and what is wrong with it.

    `head` is the hash of its last record. `open` calls were decided about and have no outcome yet.
    """

    records: int
    open: int
    first: str
    last: str
    head: str
    faults: list[Fault]

    @property
    def held(self) -> bool:
        """Whether nothing was changed, and nothing is missing."""
        return not self.faults


def verify(
    path: str | os.PathLike[str],
    expect: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Verification:
    """Read a log through, also one that is being written, and hold it against its hashes and its head file.

    `expect` is a hash that its head once had and that was noted elsewhere. `progress` is told now and then how many
    bytes of how many were read. Raises AuditError if there is no such file to read.
    """
    log = Path(path)
    check = _Check(expect)
    try:
        with log.open("rb") as file:
            size, noted = _snapshot(file, head_path(log))
            for number, line in enumerate(_lines(file, size), 1):
                check.line(number, line)
                if progress is not None and not number % _STRIDE:
                    progress(file.tell(), size)
    except OSError as error:
        raise AuditError(f"The audit log {path} cannot be read: {error.strerror}.") from error
    return check.result(noted)


def _snapshot(file: BinaryIO, head: Path) -> tuple[int, Head | None]:
    """Size and head as they were at one moment, between two records."""
    with locked(file.fileno(), shared=True):
        size = os.fstat(file.fileno()).st_size
        return size, parse_head(head.read_bytes()) if head.exists() else None


def _lines(file: BinaryIO, size: int) -> Iterator[bytes]:
    while file.tell() < size and (line := file.readline(LONGEST)):
        yield line


class _Check:
    """Takes the lines of a log in their order, and notes what is wrong."""

    def __init__(self, expect: str | None) -> None:
        self._missed = expect not in (None, GENESIS)
        self._expect = expect
        self._end = Head(0, GENESIS)
        self._prev = ""
        self._unread = 0
        self._records = 0
        self._open: set[tuple[str, str]] = set()
        self._first = self._last = ""
        self._faults: list[Fault] = []

    def line(self, number: int, line: bytes) -> None:
        try:
            record = read_record(line)
        except ValueError as error:
            self._unread += 1
            self._faults.append(Fault(number, f"It {error}."))
            return
        if fault := self._out_of_place(record):
            self._faults.append(Fault(number, fault))
        self._take(record)

    def result(self, noted: Head | None) -> Verification:
        if fault := head_fault(noted, self._end, self._prev, self._unread):
            self._faults.append(Fault(0, f"{fault[0].upper()}{fault[1:]}."))
        if self._missed:
            sentence = f"No record has the expected hash {self._expect}: the log was cut or replaced."
            self._faults.append(Fault(0, sentence))
        return Verification(self._records, len(self._open), self._first, self._last, self._end.hash, self._faults)

    def _out_of_place(self, record: WrittenRecord) -> str:
        """Why the record cannot stand here, or "". Lines that were no records are taken for the ones they replaced."""
        skipped = record.seq - self._end.seq - 1
        if skipped < 0:
            return f"Record {record.seq:,} is here a second time, or too late."
        if skipped > self._unread:
            return f"{missing(skipped - self._unread)} before record {record.seq:,}.".capitalize()
        if not skipped and record.prev != self._end.hash:
            return f"Record {record.seq:,} does not go with the record before it: one of them was replaced."
        return ""

    def _take(self, record: WrittenRecord) -> None:
        self._records += 1
        self._first = self._first or record.at
        self._last = record.at
        self._missed = self._missed and record.hash != self._expect
        call = (record.run, record.call_id)
        if record.kind == "decision" and record.decision != "refused":
            self._open.add(call)
        else:
            self._open.discard(call)
        if record.seq > self._end.seq:
            self._end, self._prev, self._unread = Head(record.seq, record.hash), record.prev, 0
