"""A SQLite file of ours: made when it is first used, and used by one thread, off the event loop."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from hotloop.errors import ConfigError

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

_BUSY_SECONDS = 10.0
_ADVICE = {
    sqlite3.SQLITE_BUSY: f"Another process has kept it busy for {_BUSY_SECONDS:.0f} s; try again",
    sqlite3.SQLITE_NOTADB: "Give another path, or move that file away",
    sqlite3.SQLITE_FULL: "Make room on its disk",
}


def state_path(name: str) -> Path:
    """Where a file with this name is kept when no path is given: hotloop/ in $XDG_STATE_HOME or ~/.local/state."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "hotloop" / name


class Database:
    """The file at `path`, with the tables that the statements of `schema` make; `what` names its content to people.

    A commit survives the process whenever it is killed; when the power goes, the last ones may be lost, never a part
    of one. Every method raises ConfigError, with what to do, when the file cannot be used.
    """

    def __init__(self, path: Path, what: str, schema: Sequence[str], version: int = 1) -> None:
        self.path = path.expanduser().absolute()
        self._what = what
        self._schema = schema
        self._version = version
        self._connection: sqlite3.Connection | None = None
        self._thread: ThreadPoolExecutor | None = None

    async def do(self, work: Work[T]) -> T:
        """What `work` gives, in one transaction; it is committed or undone even if the caller is cancelled."""
        return await asyncio.wrap_future(self._own_thread().submit(self._transaction, work))

    def do_sync(self, work: Work[T]) -> T:
        """`do` for code that is not async."""
        return self._own_thread().submit(self._transaction, work).result()

    def close(self) -> None:
        """Close the file; it is opened again when it is used again."""
        if self._thread is not None:
            thread, self._thread = self._thread, None
            thread.submit(self._close)
            thread.shutdown()

    def _own_thread(self) -> ThreadPoolExecutor:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"hotloop {self._what}")
        return self._thread

    def _transaction(self, work: Work[T]) -> T:
        try:
            db = self._connection = self._connection or self._open()
            with db:
                db.execute("BEGIN IMMEDIATE")
                return work(db)
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error
        except sqlite3.Error as error:
            raise self._unusable(str(error), getattr(error, "sqlite_errorcode", 0)) from error

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(0o700, parents=True, exist_ok=True)
        self.path.touch(0o600)
        db = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA foreign_keys = ON")
        with db:
            db.execute("BEGIN IMMEDIATE")
            self._prepare(db)
        return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        """The tables, in a file that is new; one that is not ours, or of a newer hotloop, is left as it is."""
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version == self._version:
            return
        if version > self._version:
            raise ConfigError(f"{self.path} was written by a newer hotloop (layout {version}); update this one.")
        if db.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise ConfigError(f"{self.path} is the database of another program; give another path.")
        for statement in (*self._schema, f"PRAGMA user_version = {self._version}"):
            db.execute(statement)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _unusable(self, reason: str, code: int = 0) -> ConfigError:
        advice = _ADVICE.get(code, "Give a path where you may write")
        return ConfigError(f"The {self._what} cannot be kept in {self.path}: {reason}. {advice}.")
