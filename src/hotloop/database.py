"""SQLite files of ours: one connection to each for the whole process, used in a thread, off the event loop."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from hotloop.fields import require
from hotloop.sqlitefile import Layout, connect, explained, making

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

_PRAGMAS = ("synchronous = NORMAL", "foreign_keys = ON", "secure_delete = ON")
_READ, _WRITE, _EMPTY_LOG = "BEGIN", "BEGIN IMMEDIATE", "PRAGMA wal_checkpoint(TRUNCATE)"


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

    async def erase(self, work: Work[T]) -> T:
        """`do` for work that deletes: when it is done, what it has deleted is on no page of the file any more."""
        return await self._file.aside(_WRITE, work, _EMPTY_LOG)

    def do_sync(self, work: Work[T]) -> T:
        """`do` for code that is not async, in its own thread."""
        return self._file.transaction(_WRITE, work)

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
        self._end: weakref.finalize[..., _File] | None = None
        self.start()

    def start(self) -> None:
        """Begin, once more in a forked child, where neither threads nor what they had locked live on."""
        self.using = threading.RLock()  # the connection
        self._choosing = threading.Lock()  # the thread; only ever for a moment
        self._thread: ThreadPoolExecutor | None = None

    def aside(self, begin: str, work: Work[T], after: str = "") -> asyncio.Future[T]:
        """`transaction` in the thread, after all that was given to it before."""
        with self._choosing:
            self._thread = self._thread or ThreadPoolExecutor(1, f"hotloop {self._layout.what}")
            return asyncio.get_running_loop().run_in_executor(self._thread, self.transaction, begin, work, after)

    def transaction(self, begin: str, work: Work[T], after: str = "") -> T:
        """What `work` gives, in a transaction that the statement `begin` begins; `after` is executed after it."""
        with explained(self._path, self._layout.what), self.using:
            db = self._connected()
            try:
                with db:
                    db.execute(begin)
                    done = work(db)
                if after:
                    db.execute(after)
                return done
            except sqlite3.Error:
                self.disconnect()  # whatever it was, the next one begins afresh
                raise

    def close(self) -> None:
        with self._choosing:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown()
        with self.using:
            self.disconnect()

    def disconnect(self) -> None:
        if self._end is not None:
            self._end()
        self._connection = self._end = None

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and self._identity != _identity(self._path):
            self.disconnect()  # the file was moved or deleted, and what is written to it would be lost
        if self._connection is None:
            self._connection = connect(self._path, self._layout, *_PRAGMAS, journal="WAL")
            self._identity = _identity(self._path)
            self._end = weakref.finalize(self, self._connection.close)  # when the process ends, at the latest
        return self._connection


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
