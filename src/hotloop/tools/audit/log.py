"""The audit log: who had which tool called, with what, and what came of it, each record bound to the one before."""

from __future__ import annotations

import errno
import hashlib
import os
import threading
import weakref
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hotloop.errors import AuditError
from hotloop.hiding import masked_text
from hotloop.tools.audit.masking import masked
from hotloop.tools.audit.records import (
    GENESIS,
    LONGEST,
    DecisionRecord,
    Head,
    OutcomeRecord,
    Record,
    head_fault,
    head_path,
    last_record,
    locked,
    parse_head,
    sealed,
    write_head,
)
from hotloop.tools.running.caller import Caller

_MOST_ARGUMENTS = 256 * 1024  # bytes


class _Files(NamedTuple):
    """Descriptors of the open log and of its head file, and which file the log is."""

    log: int
    head: int
    identity: tuple[int, int]


def _bounded(arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments that fit into a record, whatever a model writes."""
    text = msgspec.json.encode(arguments)
    if len(text) <= _MOST_ARGUMENTS:
        return arguments
    return {"…": f"{len(text):,} bytes of arguments", "sha256": hashlib.sha256(text).hexdigest()}


class AuditLog:
    """Appends one line of JSON per record to the file at `path`, which threads and processes may share.

    A record outlives its process, killed or not, but the last ones may be lost when the machine loses its power; see
    docs/audit.md. Making a log and each of its methods raise AuditError when it cannot be written or does not end as
    it was left.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path).absolute()
        self._lock = threading.Lock()
        self._files: _Files | None = None
        self._size = -1
        self._end = Head(0, GENESIS)
        _LOGS.add(self)
        try:
            with self._ready():
                pass
        except BaseException:
            self.close()
            raise

    def decision(
        self,
        caller: Caller,
        tool: str,
        call_id: str,
        arguments: Mapping[str, Any],
        secrets: Collection[str],
        decision: str,
        reason: str = "",
        by: str = "",
    ) -> None:
        """Record, before a call runs, what was decided about it ("allowed", "refused" ...), and by which person.

        The arguments are masked: the ones named in `secrets`, and whatever else looks secret. Of more than 256 KiB of
        them the record has the SHA-256 instead.
        """
        shown, why = _bounded(masked(arguments, secrets)), masked_text(reason)
        self._append(
            caller,
            DecisionRecord(call_id=call_id, tool=tool, arguments=shown, decision=decision, reason=why, by=by),
        )

    def outcome(self, caller: Caller, tool: str, call_id: str, outcome: str, ms: float) -> None:
        """Record what came of a call ("ok", "error" ...), and how many milliseconds it took."""
        self._append(caller, OutcomeRecord(call_id=call_id, tool=tool, outcome=outcome, ms=ms))

    def close(self) -> None:
        """Close the files. A further record opens them again."""
        with self._lock:
            self._let_go()

    def _append(self, caller: Caller, record: Record) -> None:
        with self._ready() as files:
            now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            line, end = sealed(record, caller, self._end, now)
            self._write(files.log, line)
            self._size += len(line)
            self._end = end
            write_head(files.head, end)

    @contextmanager
    def _ready(self) -> Iterator[_Files]:
        """The files, locked against other threads and processes, with `_end` and `_size` as they now are."""
        try:
            with self._lock:
                files = self._files = self._files or _open(self._path)
                with locked(files.log):
                    self._catch_up(files)
                    yield files
        except OSError as error:
            raise AuditError(f"The audit log {self._path} cannot be written: {error.strerror}.") from error
        except UnicodeEncodeError as error:
            raise AuditError(f"The audit log takes UTF-8 only, which cannot carry {error.object!r}.") from None

    def _catch_up(self, files: _Files) -> None:
        """Take over what other processes have appended. Raises AuditError if the log does not end as it should."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            raise self._broken("it was moved or deleted while it was in use") from None
        if (status.st_dev, status.st_ino) != files.identity:
            raise self._broken("another file has taken its place")
        if status.st_size != self._size:
            self._end = self._read_end(files, status.st_size)
            self._size = status.st_size

    def _read_end(self, files: _Files, size: int) -> Head:
        if not size and not os.fstat(files.head).st_size:
            write_head(files.head, Head(0, GENESIS))
        noted = parse_head(os.pread(files.head, 128, 0))
        try:
            end, prev = last_record(files.log, size)
        except ValueError as error:
            raise self._broken(f"its last line {error}") from None
        if end.seq < self._end.seq:
            raise self._broken(f"it ended with record {self._end.seq:,}, and now with record {end.seq:,}")
        if fault := head_fault(noted, end, prev):
            raise self._broken(fault)
        return end

    def _write(self, log: int, line: bytes) -> None:
        """Write the line wholly or not at all."""
        if len(line) > LONGEST:
            raise AuditError(f"A record of {len(line):,} bytes is too long for the audit log, which takes {LONGEST:,}.")
        if os.write(log, line) < len(line):
            os.ftruncate(log, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _broken(self, why: str) -> AuditError:
        return AuditError(
            f"Nothing more is appended to the audit log {self._path}: {why}. Keep it and its .head file as they are, "
            "find out why (`hotloop audit verify` lists every fault), and log to another file."
        )

    def _let_go(self) -> None:
        if self._files is not None:
            os.close(self._files.log)
            os.close(self._files.head)
            self._files = None

    def _forked(self) -> None:
        """In a forked child: a lock of its own, and files opened anew, whose locks the parent does not share."""
        self._lock = threading.Lock()
        self._let_go()


def _open(path: Path) -> _Files:
    log = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        status = os.fstat(log)
        head = os.open(head_path(path), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        os.close(log)
        raise
    return _Files(log, head, (status.st_dev, status.st_ino))


_LOGS: weakref.WeakSet[AuditLog] = weakref.WeakSet()


def _after_fork() -> None:
    for log in list(_LOGS):
        log._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
