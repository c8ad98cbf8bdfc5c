"""SQLite files of ours: one connection to each for the whole process, used in a thread, off the event loop."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from hotloop.fields import require
from hotloop.sqlitefile import BUSY_SECONDS, Layout, connect, explained, making

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

_log = logging.getLogger("hotloop.database")
_PRAGMAS = ("synchronous = NORMAL", "foreign_keys = ON", "secure_delete = ON")
_READ, _WRITE = "BEGIN", "BEGIN IMMEDIATE"
_STILL_THERE = (
    "What was deleted of the %s is still in %s or in its log: another process has been reading there for %.0f s. "
    "It goes with what is deleted next."
)
_PAUSE = 0.01  # seconds between two tries to empty the log


def state_path(name: str) -> Path:
    """Where a file with this name is kept when no path is given: hotloop/ in $XDG_STATE_HOME or ~/.local/state."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "hotloop" / name


class Database:
    """The file at `path`, with the tables that the statements of `schema` make; `what` names its content to people.

    All of a process that are made for one file share its connection, in whatever thread, event loop or forked child.
    A commit survives the process whenever it is killed; when the power goes, the last ones may be lost, never a part
    of one. Every method raises ConfigError, with what to do, when the file cannot be used.
    """

    def __init__(self, path: Path, what: str, schema: Sequence[str], version: int = 1) -> None:
        self.path = path.expanduser().absolute()
        require("\0" not in str(path), f"{str(path)!r} can be no path of a file; give another one.")
        self._file = _file(self.path, Layout(what, tuple(schema), version))

    async def do(self, work: Work[T]) -> T:
        """What `work` gives, in one transaction; it is committed or undone even if the caller is cancelled."""
        return await self._file.aside(_WRITE, work)

    async def read(self, work: Work[T]) -> T:
        """`do` for work that only reads: it has all as it was at one moment, and waits for no other process."""
        return await self._file.aside(_READ, work)

    async def overwrite(self, work: Work[T]) -> T:
        """`do` for work that deletes: when it is done, what it has deleted is overwritten where it was.

        Copies may be left, for SQLite does not clear what it moves from one page to another.
        """
        return await self._file.aside(_WRITE, work, self._file.empty_log)

    async def erase(self, work: Work[T]) -> T:
        """`do` for work that deletes: when it is done, what it has deleted is on no page of the file any more.

        The whole file is written anew for that, which takes about 10 ms for each MB of it.
        """
        return await self._file.aside(_WRITE, work, self._file.rewrite)

    def do_sync(self, work: Work[T]) -> T:
        """`do` for code that is not async, in its own thread."""
        return self._file.transaction(_WRITE, work)

    def read_sync(self, work: Work[T]) -> T:
        """`read` for code that is not async."""
        return self._file.transaction(_READ, work)

    def erase_sync(self, work: Work[T]) -> T:
        """`erase` for code that is not async."""
        return self._file.transaction(_WRITE, work, self._file.rewrite)

    def close(self) -> None:
        """Do what was asked for, and close the file; it is opened again when it is used again."""
        self._file.close()


class _File:
    """What a process has for a file: a connection, and the thread that uses it, each made when it is needed."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self._path = path
        self._layout = layout
        self._connection: sqlite3.Connection | None = None
        self._identity = (0, 0)
        self.start()

    def __del__(self) -> None:
        self.disconnect()

    def start(self) -> None:
        """Begin, once more in a forked child, where neither threads nor what they had locked live on."""
        self.using = threading.RLock()  # the connection
        self._choosing = threading.Lock()  # the thread; only ever for a moment
        self._thread: ThreadPoolExecutor | None = None

    def aside(self, begin: str, work: Work[T], after: Work[None] | None = None) -> asyncio.Future[T]:
        """`transaction` in the thread, after all that was given to it before."""
        with self._choosing:
            self._thread = self._thread or ThreadPoolExecutor(1, f"hotloop {self._layout.what}")
            return asyncio.get_running_loop().run_in_executor(self._thread, self.transaction, begin, work, after)

    def transaction(self, begin: str, work: Work[T], after: Work[None] | None = None) -> T:
        """What `work` gives, in a transaction that the statement `begin` begins; `after` is done after it."""
        with explained(self._path, self._layout.what), self.using:
            db = self._connected()
            try:
                with db:
                    db.execute(begin)
                    done = work(db)
                if after is not None:
                    after(db)
                return done
            except sqlite3.Error:
                self.disconnect()  # whatever it was, the next one begins afresh
                raise
            finally:
                if _ending.is_set():
                    self.disconnect()

    def rewrite(self, db: sqlite3.Connection) -> None:
        """Write the file anew, with nothing in it but what it holds."""
        db.execute("VACUUM")
        self.empty_log(db)

    def empty_log(self, db: sqlite3.Connection) -> None:
        """Bring all that was committed into the file itself, and leave nothing in the log beside it."""
        until = time.monotonic() + BUSY_SECONDS
        while _busy(db):
            if time.monotonic() > until:
                _log.warning(_STILL_THERE, self._layout.what, self._path, BUSY_SECONDS)
                return
            time.sleep(_PAUSE)

    def close(self) -> None:
        with self._choosing:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown()
        with self.using:
            self.disconnect()

    def disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and self._identity != _identity(self._path):
            self.disconnect()  # the file was moved or deleted, and what is written to it would be lost
        if self._connection is None:
            self._connection = connect(self._path, self._layout, *_PRAGMAS, journal="WAL")
            self._identity = _identity(self._path)
        return self._connection


def _busy(db: sqlite3.Connection) -> bool:
    """Try to empty the log; whether somebody reads from it."""
    (busy, _, _) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return bool(busy)


def _identity(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0, 0
    return status.st_dev, status.st_ino


_files: weakref.WeakValueDictionary[tuple[Path, Layout], _File] = weakref.WeakValueDictionary()
_sharing = threading.Lock()  # held while `_files` is looked into
_held: list[_File] = []  # while the process forks


def _file(path: Path, layout: Layout) -> _File:
    with _sharing:
        found = _files.get((path, layout))
        if found is None:
            found = _files[path, layout] = _File(path, layout)
        return found


_ending = threading.Event()  # the files were closed for the last time; who uses one after that closes it at once


@atexit.register
def _at_exit() -> None:
    _ending.set()
    with _sharing:
        files = list(_files.values())
    for file in files:
        with file.using:
            file.disconnect()


def _before_fork() -> None:
    """Close all files, whose use is over: what SQLite knows of its locks must not be inherited."""
    _sharing.acquire()
    _held.extend(_files.values())
    for file in _held:
        file.using.acquire()
        file.disconnect()
    making.acquire()


def _after_fork() -> None:
    making.release()
    for file in _held:
        file.using.release()
    _held.clear()
    _sharing.release()


def _in_child() -> None:
    held = list(_held)
    _after_fork()
    for file in held:
        file.start()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
