"""Where records of runs are kept: a SQLite file."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hotloop.database import Database, state_path
from hotloop.errors import ConfigError
from hotloop.trace.packing import BESIDE, NOTHING, Declaration, pack, unpack
from hotloop.trace.record import Outcome, TraceRecord
from hotloop.trace.retention import STALE, Retention
from hotloop.trace.tokens import total_usage

_log = logging.getLogger("hotloop.trace")

_SCHEMA = (
    """CREATE TABLE runs (
        id INTEGER PRIMARY KEY, trace_id TEXT NOT NULL, agent TEXT NOT NULL, version TEXT NOT NULL,
        session TEXT NOT NULL, source TEXT NOT NULL, started REAL NOT NULL, took INTEGER NOT NULL,
        outcome TEXT NOT NULL, error TEXT NOT NULL, turns INTEGER NOT NULL, input_tokens INTEGER,
        output_tokens INTEGER, written REAL NOT NULL, declaration INTEGER NOT NULL, record BLOB NOT NULL,
        UNIQUE (started, trace_id, source))""",
    "CREATE TABLE declarations (key INTEGER PRIMARY KEY, written REAL NOT NULL, packed BLOB NOT NULL)",
    "CREATE TABLE missed (day INTEGER PRIMARY KEY, runs INTEGER NOT NULL)",
)
_INFO = "trace_id, agent, version, session, source, started, took, outcome, error, turns, input_tokens, output_tokens"
_INSERT = f"INSERT OR REPLACE INTO runs ({_INFO}, written, declaration, record) VALUES ({', '.join('?' * 15)})"
_DECLARE = f"""
    INSERT INTO declarations VALUES (?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET written = excluded.written WHERE written < excluded.written - {STALE}"""
_READ = "SELECT id, record, packed, {} FROM runs LEFT JOIN declarations ON key = declaration WHERE id IN ({})"
_DELETE = "DELETE FROM runs WHERE id = ?"
_FORGET = "DELETE FROM declarations WHERE key NOT IN (SELECT declaration FROM runs)"
_BESIDE = "trace_id, agent, version, session, source, started, outcome, error"
_MISSED = "INSERT INTO missed VALUES (?, ?) ON CONFLICT (day) DO UPDATE SET runs = runs + excluded.runs"
_DAY = 86_400
_CHUNK = 500  # records that are read at a time
_AFTER_ALL = "\U0010ffff"  # sorts behind whatever may follow the beginning of an id

_CONDITIONS = {
    "trace_id": "trace_id = ?",
    "session": "session = ?",
    "agent": "agent = ?",
    "version": "version = ?",
    "source": "source = ?",
    "since": "started >= ?",
    "until": "started < ?",
    "slow": "took >= ? * 1000000000",
}


class Which(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs: those with this id, of this session, agent, version and source, begun at `since` or later and before
    `until` (Unix seconds), that took `slow` seconds or more, that `failed`; the last `limit` of them.
    """

    trace_id: str | None = None
    session: str | None = None
    agent: str | None = None
    version: str | None = None
    source: str | None = None
    since: float | None = None
    until: float | None = None
    slow: float | None = None
    failed: bool = False
    limit: int | None = None


class TraceInfo(msgspec.Struct, frozen=True):
    """What a list tells of a run: `started` in Unix seconds, `took` in nanoseconds, tokens as far as they are known."""

    trace_id: str
    agent: str
    version: str
    session: str
    source: str
    started: float
    took: int
    outcome: Outcome
    error: str
    turns: int
    input_tokens: int | None
    output_tokens: int | None


class Added(NamedTuple):
    """How many records there were to be added, and how many of them were `new`."""

    read: int
    new: int


_ALL = Which()


class Row(NamedTuple):
    """What is kept of a record, and of what its agent declares, which is kept once for many."""

    values: tuple[object, ...]
    declaration: Declaration

    @property
    def agent(self) -> str:
        """Whose run it is."""
        return str(self.values[1])


class TraceStore:
    """An `Exporter` that keeps records in the file at `path`, None for traces.db in the state folder.

    A record of the same run (its id, source and start) takes the place of an earlier one. Those of the agents that it
    exports are kept as long as `retention` says, which is looked after by `export`; all others for ever. Every method
    raises ConfigError, with what to do, when the file cannot be used.
    """

    def __init__(self, path: str | Path | None = None, *, retention: Retention | None = None) -> None:
        self._database = Database(state_path("traces.db") if path is None else Path(path), "traces", _SCHEMA)
        self._retention = retention
        self.path = self._database.path

    def export(self, records: Sequence[TraceRecord]) -> None:
        """Keep these, and delete what has been kept long enough."""
        self.write([*map(row_of, records)])

    def write(self, rows: Sequence[Row]) -> None:
        """`export` what `row_of` has made of the records."""
        self._database.do_sync(lambda db: _insert(db, rows))
        if self._retention is not None and self._retention.due(row.agent for row in rows):
            self._database.do_sync(self._retention.enforce)

    def add(self, records: Iterable[TraceRecord]) -> Added:
        """Keep these, all or, if getting them raises, none; until then they are in memory, packed."""
        rows = [*map(row_of, records)]

        def insert(db: sqlite3.Connection) -> Added:
            before = _count(db)
            _insert(db, rows)
            return Added(len(rows), _count(db) - before)

        return self._database.do_sync(insert)

    def close(self) -> None:
        """Close the file; it is opened again when it is used again."""
        self._database.close()

    def find(self, which: Which = _ALL) -> Iterator[TraceRecord]:
        """The records of these runs, the oldest first; read little by little, so that many take no memory.

        One that cannot be read is left out, with a warning in the log.
        """
        ids = [row[0] for row in self._select("id", which)]
        for start in range(0, len(ids), _CHUNK):
            yield from self._read(ids[start : start + _CHUNK])

    def infos(self, which: Which = _ALL) -> list[TraceInfo]:
        """What is told of these runs, the oldest first."""
        return [TraceInfo(*row) for row in self._select(_INFO, which)]

    def get(self, trace_id: str | None = None) -> TraceRecord:
        """The run with this id, or the only one whose id begins so; None for the newest run.

        Raises ConfigError when there is none, or more than one.
        """
        which = Which(limit=1) if trace_id is None else Which(trace_id=self.resolve(trace_id), limit=1)
        for record in self.find(which):  # of a run that was resumed, its last part
            return record
        raise ConfigError(f"No run is recorded in {self.path} yet.")

    def resolve(self, beginning: str) -> str:
        """The id that this is, or the only one that begins so. Raises ConfigError when there is none, or more."""
        query = "SELECT DISTINCT trace_id FROM runs WHERE trace_id >= ? AND trace_id < ?"
        ids = self._database.read_sync(lambda db: db.execute(query, (beginning, beginning + _AFTER_ALL)).fetchall())
        if (beginning,) in ids or len(ids) == 1:
            return beginning if (beginning,) in ids else str(ids[0][0])
        if ids:
            raise ConfigError(f"The ids of {len(ids):,} runs in {self.path} begin with {beginning}; give more of it.")
        raise ConfigError(f"There is no run {beginning} in {self.path}; see `hotloop trace list`.")

    def delete(self, which: Which) -> int:
        """Delete these runs, so that nothing of them is left in the file; how many there were.

        The whole file is written anew for that, which takes about 10 ms for each MB of it. Not for an event loop.
        """
        ids = self._select("id", which)

        def erase(db: sqlite3.Connection) -> None:
            db.executemany(_DELETE, ids)
            db.execute(_FORGET)

        if ids:
            self._database.erase_sync(erase)
        return len(ids)

    def missed(self, runs: int) -> None:
        """Take note of runs that were dropped, because they ended faster than they could be recorded."""
        self._database.do_sync(lambda db: db.execute(_MISSED, (int(time.time()) // _DAY, runs)) and None)

    def count_missed(self) -> int:
        """How many runs were dropped, in the days of which there are records."""
        return self._database.read_sync(lambda db: int(db.execute("SELECT total(runs) FROM missed").fetchone()[0]))

    def _select(self, columns: str, which: Which) -> list[tuple[Any, ...]]:
        where, values = _where(which)
        query = f"SELECT {columns} FROM runs{where} ORDER BY started DESC, id DESC LIMIT ?"
        limit = -1 if which.limit is None else which.limit
        return self._database.read_sync(lambda db: db.execute(query, (*values, limit)).fetchall())[::-1]

    def _read(self, ids: Sequence[int]) -> Iterator[TraceRecord]:
        """The records with these numbers, in this order, as far as they are still there."""
        query = _READ.format(_BESIDE, ", ".join("?" * len(ids)))
        rows = self._database.read_sync(lambda db: db.execute(query, ids).fetchall())
        found = {row[0]: row[1:] for row in rows}
        for number in ids:
            if number in found:
                data, declaration, *beside = found[number]
                try:
                    yield unpack(data, declaration or NOTHING, dict(zip(BESIDE, beside, strict=True)))
                except msgspec.MsgspecError as error:
                    _log.warning("Run %s in %s is damaged: %s.", beside[0], self.path, error)


def _where(which: Which) -> tuple[str, list[object]]:
    """The condition that these runs meet, and its values."""
    given = [(name, getattr(which, name)) for name in _CONDITIONS]
    conditions = [_CONDITIONS[name] for name, value in given if value is not None]
    values = [value for _, value in given if value is not None]
    if which.failed:
        conditions.append("outcome = 'failed'")
    return f" WHERE {' AND '.join(conditions)}" if conditions else "", values


def _count(db: sqlite3.Connection) -> int:
    (count,) = db.execute("SELECT count(*) FROM runs").fetchone()
    return int(count)


def row_of(record: TraceRecord) -> Row:
    """What is kept of a record. Raises ConfigError for half of a character or a number that is too large."""
    whose = (record.trace_id, record.name, record.version, record.session, record.source)
    how = (record.started, record.end - record.start, record.outcome, record.error, len(record.turns))
    usage = total_usage(record.attempts)
    try:
        data, declaration = pack(record)
    except (UnicodeEncodeError, OverflowError) as error:
        raise ConfigError(f"Run {record.trace_id} cannot be kept: {error}.") from None
    return Row((*whose, *how, usage.input_tokens, usage.output_tokens, time.time(), declaration.key, data), declaration)


def _insert(db: sqlite3.Connection, rows: Sequence[Row]) -> None:
    now, declared = time.time(), {row.declaration.key: row.declaration.data for row in rows}
    db.executemany(_DECLARE, [(key, now, data) for key, data in declared.items()])
    db.executemany(_INSERT, [row.values for row in rows])
