"""Where facts are kept, in a file or in this process only, and whether anybody has changed them since."""

from __future__ import annotations

import atexit
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

from hotloop.context.memory.stored import SCHEMA
from hotloop.database import Database, state_path

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]


class Mark(NamedTuple):
    """What a database is known by on a connection until something is committed, by others or by this connection."""

    db: sqlite3.Connection
    of_others: int
    of_ours: int


def mark(db: sqlite3.Connection) -> Mark:
    """What the database is known by now."""
    (of_others,) = db.execute("PRAGMA data_version").fetchone()
    return Mark(db, of_others, db.total_changes)


class File(Database):
    """The facts in the file at `path`, None for the usual one."""

    def __init__(self, path: str | Path | None) -> None:
        super().__init__(state_path("memory.db") if path is None else Path(path), "memory", SCHEMA)
        self._watch = _Watch(self.path)

    def seen(self) -> Mark | None:
        """What the file is known by; None if it is not watched. Takes microseconds and waits for nobody."""
        return self._watch.seen(begin=False)

    def watched(self) -> Mark | None:
        """What the file is known by, which is watched from now on; None if it cannot be."""
        return self._watch.seen(begin=True)

    def close(self) -> None:
        with _watching:
            self._watch.end()  # before the other, which as the last one leaves nothing beside the file
        super().close()


class InProcess:
    """Facts that end with this object."""

    def __init__(self) -> None:
        self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._lock = threading.Lock()
        weakref.finalize(self, self._db.close)
        for statement in ("PRAGMA foreign_keys = ON", *SCHEMA):
            self._db.execute(statement)

    def do_sync(self, work: Work[T]) -> T:
        """What `work` gives, in a transaction."""
        with self._lock, self._db:
            self._db.execute("BEGIN")
            return work(self._db)

    async def do(self, work: Work[T]) -> T:
        """`do_sync`, for it takes no time."""
        return self.do_sync(work)

    read = overwrite = erase = do

    def seen(self) -> Mark:
        """Always the same: nobody else changes it."""
        return Mark(self._db, 0, 0)

    watched = seen

    def close(self) -> None:
        """Nothing is closed: what is kept here is nowhere else."""


Place: TypeAlias = File | InProcess


class _Watch:
    """A connection that only ever asks whether anything was committed to a file, by whatever other connection."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db: sqlite3.Connection | None = None
        self._inode = 0

    def __del__(self) -> None:
        self.end()

    def seen(self, *, begin: bool) -> Mark | None:
        with _watching:
            try:
                if self._db is None and begin:
                    self._connect()
                if self._db is not None and self._path.stat().st_ino == self._inode:
                    return mark(self._db)
            except (OSError, sqlite3.Error):
                pass  # whoever uses the file next is told why
            self.end()
            return None

    def end(self) -> None:
        if self._db is not None:
            self._db.close()
        self._db = None

    def _connect(self) -> None:
        uri = f"{self._path.as_uri()}?mode=rw"
        self._db = sqlite3.connect(uri, timeout=0, isolation_level=None, check_same_thread=False, uri=True)
        self._inode = self._path.stat().st_ino
        _watches.add(self)


_watching = threading.Lock()  # any of them; only ever for a moment, or while the process forks
_watches: weakref.WeakSet[_Watch] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    for watch in list(_watches):
        watch.end()


def _before_fork() -> None:
    """As with the file itself: what SQLite knows of its locks must not be inherited."""
    _watching.acquire()
    _end_all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_watching.release, after_in_child=_watching.release)
