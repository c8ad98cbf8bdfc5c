"""Where facts are kept: in a file, or in this process only."""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from hotloop.context.memory.front import Stamp
from hotloop.context.memory.stored import SCHEMA
from hotloop.database import Database, state_path

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]


class Place(Protocol):
    """A SQLite database with the tables of facts; see `hotloop.database.Database`."""

    async def read(self, work: Work[T]) -> T:
        """What `work` reads."""

    async def overwrite(self, work: Work[T]) -> T:
        """What `work` gives, which deletes."""

    async def erase(self, work: Work[T]) -> T:
        """What `work` gives, which deletes so that nothing of it is left."""

    def do_sync(self, work: Work[T]) -> T:
        """What `work` gives, in this thread."""

    def stamp(self) -> Stamp:
        """What the place is known by while nobody writes to it."""

    def close(self) -> None:
        """Close it; it is opened again when it is used again."""


class File(Database):
    """The facts in the file at `path`, None for the usual one."""

    def __init__(self, path: str | Path | None) -> None:
        super().__init__(state_path("memory.db") if path is None else Path(path), "memory", SCHEMA)
        self._log = Path(f"{self.path}-wal")

    def stamp(self) -> Stamp:
        """The size and the time of the file's log, to which every commit of any process is added."""
        try:
            status = self._log.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size


class InProcess:
    """Facts that end with this object."""

    def __init__(self) -> None:
        self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._lock = threading.Lock()
        weakref.finalize(self, self._db.close)
        for statement in ("PRAGMA foreign_keys = ON", *SCHEMA):
            self._db.execute(statement)

    async def read(self, work: Work[T]) -> T:
        return self.do_sync(work)

    async def overwrite(self, work: Work[T]) -> T:
        return self.do_sync(work)

    async def erase(self, work: Work[T]) -> T:
        return self.do_sync(work)

    def do_sync(self, work: Work[T]) -> T:
        with self._lock, self._db:
            self._db.execute("BEGIN")
            return work(self._db)

    def stamp(self) -> Stamp:
        return 0, 0

    def close(self) -> None:
        """Nothing is closed: what is kept here is nowhere else."""
