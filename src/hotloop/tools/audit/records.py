"""The audit log as bytes: lines that each hold the hash of the one before, and a head file that tells the last one."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hotloop.errors import AuditError
from hotloop.tools.running.caller import Caller

GENESIS = "0" * 64
"""The first record's hash of the record before it."""
LONGEST = 1 << 20
"""Bytes that the line of one record may have."""

_PATIENCE = 2.0  # seconds for which another process may hold a log
_PAUSE = 0.0005  # seconds between two tries to get it
_SEAL_LENGTH = len(',"hash":""}\n') + len(GENESIS)
_HEAD = re.compile(rb"(\d{20}) ([0-9a-f]{64})\n")


class Head(NamedTuple):
    """Where a log stands: the number and the hash of its last record."""

    seq: int
    hash: str


class Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """What there is to say of a call of a tool. Who called it, when, and `seq`, counted from 1, `sealed` fills in."""

    seq: int = 0
    at: str = ""
    run: str = ""
    agent: str = ""
    session: str = ""
    user: str = ""
    call_id: str
    tool: str


class DecisionRecord(Record, frozen=True, kw_only=True, tag="decision"):
    """What was decided about a call before it ran, why, and by which person."""

    arguments: dict[str, Any]
    decision: str
    reason: str
    by: str


class OutcomeRecord(Record, frozen=True, kw_only=True, tag="outcome"):
    """What came of a call."""

    outcome: str
    ms: float


class WrittenRecord(msgspec.Struct, frozen=True):
    """A record of either kind as it was read: what is needed to check it."""

    kind: str
    seq: int
    at: str
    run: str
    call_id: str
    prev: str
    hash: str
    decision: str = ""


def sealed(record: Record, caller: Caller, prev: Head, at: str) -> tuple[bytes, Head]:
    """The record as the line that follows the head `prev`, and the head that it becomes."""
    whole = msgspec.structs.replace(
        record,
        seq=prev.seq + 1,
        at=at,
        run=caller.run,
        agent=caller.agent,
        session=caller.session,
        user=caller.user,
    )
    line, digest = _seal(msgspec.json.encode(whole)[:-1] + f',"prev":"{prev.hash}"'.encode())
    return line, Head(whole.seq, digest)


def _seal(signed: bytes) -> tuple[bytes, str]:
    digest = hashlib.sha256(signed + b"}").hexdigest()
    return signed + f',"hash":"{digest}"}}\n'.encode(), digest


def read_record(line: bytes) -> WrittenRecord:
    """The record in this line. Raises ValueError with what is wrong with the line, as the rest of a sentence."""
    if not line.endswith(b"\n"):
        raise ValueError("is not whole: its end was cut off, or never written because the power went")
    try:
        record = msgspec.json.decode(line, type=WrittenRecord)
    except ValueError as error:
        raise ValueError(f"is no record of an audit log ({error})") from None
    signed = line[:-_SEAL_LENGTH]
    if line != _seal(signed)[0]:
        raise ValueError("was changed: its hash is not that of its text")
    return record


def head_path(log: Path) -> Path:
    """The file beside a log that holds its head, so that a missing end is noticed."""
    return log.with_name(f"{log.name}.head")


def parse_head(content: bytes) -> Head | None:
    """What a head file says; None if it is damaged."""
    found = _HEAD.fullmatch(content)
    return Head(int(found[1]), found[2].decode()) if found else None


def head_fault(noted: Head | None, end: Head, prev: str, unread: int = 0) -> str:
    """Why a head file does not fit a log that ends with this record and `unread` lines that are none; "" if it does.

    It may be one record behind, whose hash is `prev`: a process can be killed between writing the log and the head.
    """
    if noted is None:
        return "its .head file is missing or damaged, so that nobody can tell whether its end was cut off"
    ahead = noted.seq - end.seq
    if noted in (end, Head(end.seq - 1, prev)) or 0 < ahead <= unread:
        return ""
    if ahead > 0:
        return f"{missing(ahead - unread)} at its end: its .head file tells of record {noted.seq:,}"
    return f"its .head file tells of another record {noted.seq:,}, so that one of the two was replaced"


def missing(count: int) -> str:
    """That so many records are missing."""
    return "1 record is missing" if count == 1 else f"{count:,} records are missing"


def last_record(log: int, size: int) -> tuple[Head, str]:
    """The last record of a log of this size, and the hash of the one before. Raises ValueError if it is none."""
    if not size:
        return Head(0, GENESIS), ""
    length = 4096
    while True:
        block = os.pread(log, length, max(0, size - length))
        start = block.rfind(b"\n", 0, -1) + 1
        if start or length >= min(size, LONGEST):
            record = read_record(block[start:])
            return Head(record.seq, record.hash), record.prev
        length *= 4


def write_head(file: int, head: Head) -> None:
    """Write a head over the one in this file, which is as long."""
    os.pwrite(file, f"{head.seq:020} {head.hash}\n".encode(), 0)


@contextmanager
def locked(log: int, *, shared: bool = False) -> Iterator[None]:
    """Hold the lock on this descriptor against other processes; `shared` with others that only read.

    It is held for microseconds. Raises OSError if it is never free for seconds, as when its holder was stopped.
    """
    try:
        import fcntl
    except ModuleNotFoundError:
        raise AuditError("An audit log needs the file locks of Linux or macOS, which this system lacks.") from None
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    _patiently(lambda: fcntl.flock(log, kind | fcntl.LOCK_NB))
    try:
        yield
    finally:
        fcntl.flock(log, fcntl.LOCK_UN)


def _patiently(lock: Callable[[], None]) -> None:
    last = time.monotonic() + _PATIENCE
    while True:
        try:
            return lock()
        except BlockingIOError:
            if time.monotonic() >= last:
                why = f"another process has kept it locked for {_PATIENCE:g} s; let it go on, or end it"
                raise OSError(errno.EWOULDBLOCK, why) from None
            time.sleep(_PAUSE)
