"""How a SQLite file of ours is made, opened and known from others', and what a person is told where that cannot be."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from hotloop.errors import ConfigError

BUSY_SECONDS = 10.0
_PAUSE = 0.005  # seconds between two tries
_ADVICE = {
    sqlite3.SQLITE_BUSY: f"Another process has kept it busy for {BUSY_SECONDS:.0f} s; try again",
    sqlite3.SQLITE_NOTADB: "Give another path, or move that file away",
    sqlite3.SQLITE_CORRUPT: "Move that file away, or put an earlier copy in its place",
    sqlite3.SQLITE_FULL: "Make room on its disk",
}
_PAGE = 8192  # bytes: with the usual 4096 a long conversation takes twice as long to read

making = threading.Lock()
"""Held while an empty file is made."""


class Layout(NamedTuple):
    """`what` a file holds, in a person's words, and the statements that make its tables."""

    what: str
    schema: tuple[str, ...]
    version: int = 1

    @property
    def marks(self) -> tuple[int, int]:
        """By which a file of this layout is known, in the places that SQLite's format has for that."""
        return zlib.crc32(f"hotloop {self.what}".encode()) >> 1, self.version


@contextmanager
def explained(path: Path, what: str) -> Iterator[None]:
    """Raise ConfigError, with what to do, where the file at `path`, in which `what` is kept, cannot be used."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise ConfigError(f"{error.object!r} is no text that can be kept: it is not valid Unicode.") from error
    except UnicodeDecodeError as error:  # of its own description: nobody reads text of ours as it is
        raise _unusable(path, what, "it is damaged", sqlite3.SQLITE_NOTADB) from error
    except OSError as error:
        raise _unusable(path, what, error.strerror or str(error)) from error
    except sqlite3.Error as error:
        raise _unusable(path, what, str(error), getattr(error, "sqlite_errorcode", 0)) from error


def make_empty(path: Path) -> None:
    """An empty file that only its owner may read, unless there is one."""
    # One at a time: closing a file drops the locks that SQLite holds on it for other threads of this process.
    with making, suppress(FileExistsError):
        path.touch(0o600, exist_ok=False)


def connect(path: Path, layout: Layout, *pragmas: str, journal: str = "DELETE") -> sqlite3.Connection:
    """A connection to the file at `path`, made with its tables if it is not there; for any thread.

    One that lies where nothing may be written can still be read. Raises ConfigError for a file that is not of this
    layout, and leaves it as it is; and what `explained` explains.
    """
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    make_empty(path)
    unchanging = journal == "WAL" and _is_unchanging(path)
    place = f"{path.absolute().as_uri()}?immutable=1" if unchanging else path
    db = sqlite3.connect(place, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=unchanging)
    try:
        for pragma in (f"page_size = {_PAGE}", *pragmas):
            db.execute(f"PRAGMA {pragma}")
        if _marks(db) != layout.marks:
            _prepare(db, path, layout)
        if not unchanging:
            _set_journal(db, journal)  # part of the file, which is ours now
    except BaseException:
        db.close()
        raise
    return db


def _is_unchanging(path: Path) -> bool:
    """Whether the file has no log, and can get none: SQLite then only reads it, and as what cannot change."""
    writable = os.access(path.parent, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
    return not writable and not path.with_name(f"{path.name}-wal").exists()


def _set_journal(db: sqlite3.Connection, journal: str) -> None:
    """SQLite does not wait here for others who open the file at the same moment, so that we do."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            db.execute(f"PRAGMA journal_mode = {journal}")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(_PAUSE)


def _prepare(db: sqlite3.Connection, path: Path, layout: Layout) -> None:
    """The tables, in a file that is new. Raises ConfigError for one that is not ours, or of another hotloop."""
    ours, newest = layout.marks
    with db:
        db.execute("BEGIN IMMEDIATE")
        mark, version = _marks(db)
        if (mark, version) == (0, 0) and not db.execute("SELECT 1 FROM sqlite_master").fetchone():
            for statement in (*layout.schema, f"PRAGMA application_id = {ours}", f"PRAGMA user_version = {newest}"):
                db.execute(statement)
        elif mark != ours:
            raise ConfigError(f"{path} is the database of another program; give another path.")
        elif version > newest:
            raise ConfigError(f"{path} was written by a newer hotloop (layout {version}); update this one.")
        elif version < newest:
            raise ConfigError(f"{path} was written by an earlier hotloop (layout {version}); move it away.")


def _marks(db: sqlite3.Connection) -> tuple[int, int]:
    (mark,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return mark, version


def _unusable(path: Path, what: str, reason: str, code: int = 0) -> ConfigError:
    advice = _ADVICE.get(code & 0xFF, "Give a path where you may write")  # the rest of a code says where it happened
    return ConfigError(f"The {what} cannot be kept in {path}: {reason}. {advice}.")
