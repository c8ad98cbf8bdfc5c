"""Where records of runs are kept: a SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hotloop.database import Database, state_path
from hotloop.errors import ConfigError
from hotloop.trace.record import Outcome, TraceRecord
from hotloop.words import did_you_mean

_SCHEMA = (
    """CREATE TABLE runs (
        id INTEGER PRIMARY KEY AUTOINCREMENT, trace_id TEXT NOT NULL, agent TEXT NOT NULL, version TEXT NOT NULL,
        session TEXT NOT NULL, source TEXT NOT NULL, started REAL NOT NULL, took INTEGER NOT NULL,
        outcome TEXT NOT NULL, error TEXT NOT NULL, turns INTEGER NOT NULL, input_tokens INTEGER,
        output_tokens INTEGER, record BLOB NOT NULL, UNIQUE (trace_id, source, started))""",
    "CREATE INDEX runs_by_time ON runs (started)",
)
_INFO = "trace_id, agent, version, session, source, started, took, outcome, error, turns, input_tokens, output_tokens"
_INSERT = f"INSERT OR REPLACE INTO runs ({_INFO}, record) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_AFTER_ALL = "\U0010ffff"  # sorts behind whatever may follow the beginning of an id
_CHUNK = 500  # records that are read at a time
_NEAR = 1_000  # the newest runs among which the one that was meant is looked for

_CONDITIONS = {
    "session": "session = ?",
    "agent": "agent = ?",
    "version": "version = ?",
    "source": "source = ?",
    "since": "started >= ?",
    "until": "started < ?",
    "slow": "took >= ? * 1000000000",
}
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(TraceRecord).decode


class Which(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs: those of this session, agent, version and source, begun at `since` or later and before `until` (Unix
    seconds), that took `slow` seconds or more, that `failed`; whose id is or begins with `trace_id`; the last `limit`.
    """

    session: str | None = None
    agent: str | None = None
    version: str | None = None
    source: str | None = None
    since: float | None = None
    until: float | None = None
    slow: float | None = None
    failed: bool = False
    trace_id: str | None = None
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


_ALL = Which()


class TraceStore:
    """An `Exporter` that keeps records in the file at `path`, None for the usual one in the state folder.

    A record of the same run (its id, source and start) takes the place of an earlier one. Every method raises
    ConfigError, with what to do, when the file cannot be used.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._database = Database(state_path("traces.db") if path is None else Path(path), "traces", _SCHEMA)
        self.path = self._database.path

    def export(self, records: Sequence[TraceRecord]) -> None:
        """Keep these."""
        rows = [_row(record) for record in records]
        self._database.do_sync(lambda db: db.executemany(_INSERT, rows))

    def close(self) -> None:
        """Close the file; it is opened again when it is used again."""
        self._database.close()

    def find(self, which: Which = _ALL) -> Iterator[TraceRecord]:
        """The records of these runs, the oldest first; read little by little, so that many take no memory."""
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
        which = Which(limit=1) if trace_id is None else Which(trace_id=trace_id)
        newest = dict(self._select("trace_id, id", which))  # of a run that was resumed, its last part
        if len(newest) > 1 and trace_id not in newest:
            raise ConfigError(f"The ids of {len(newest):,} runs in {self.path} begin with {trace_id}; give more of it.")
        for record in self._read([newest.get(trace_id, number) for number in newest.values()][:1]):
            return record
        raise ConfigError(self._missing(trace_id))

    def delete(self, which: Which) -> int:
        """Delete these runs, so that nothing of them is left in the file; how many there were."""
        ids = self._select("id", which)

        def erase(db: sqlite3.Connection) -> int:
            return db.executemany("DELETE FROM runs WHERE id = ?", ids).rowcount

        return self._database.do_sync(erase) if ids else 0

    def _select(self, columns: str, which: Which) -> list[tuple[Any, ...]]:
        where, values = _where(which)
        query = f"SELECT {columns} FROM runs{where} ORDER BY started DESC, id DESC LIMIT ?"
        limit = -1 if which.limit is None else which.limit
        return self._database.do_sync(lambda db: db.execute(query, (*values, limit)).fetchall())[::-1]

    def _read(self, ids: Sequence[object]) -> list[TraceRecord]:
        """The records with these numbers, in this order, as far as they are still there."""
        query = f"SELECT id, record FROM runs WHERE id IN ({', '.join('?' * len(ids))})"
        found = dict(self._database.do_sync(lambda db: db.execute(query, ids).fetchall()))
        return [_decode(found[each]) for each in ids if each in found]

    def _missing(self, trace_id: str | None) -> str:
        if trace_id is None:
            return f"No run is recorded in {self.path} yet."
        known = [str(row[0]) for row in self._select("trace_id", Which(limit=_NEAR))]
        return f"There is no run {trace_id} in {self.path}{did_you_mean(trace_id, known) or '.'}"


def _where(which: Which) -> tuple[str, list[object]]:
    """The condition that these runs meet, and its values."""
    given = [(name, getattr(which, name)) for name in _CONDITIONS]
    conditions = [_CONDITIONS[name] for name, value in given if value is not None]
    values = [value for _, value in given if value is not None]
    if which.failed:
        conditions.append("outcome = 'failed'")
    if which.trace_id is not None:
        conditions.append("trace_id >= ? AND trace_id < ?")
        values += [which.trace_id, which.trace_id + _AFTER_ALL]
    return f" WHERE {' AND '.join(conditions)}" if conditions else "", values


def _row(record: TraceRecord) -> tuple[object, ...]:
    whose = (record.trace_id, record.name, record.version, record.session, record.source)
    how = (record.started, record.end - record.start, record.outcome, record.error, len(record.turns))
    return (*whose, *how, *_tokens(record), _encode(record))


def _tokens(record: TraceRecord) -> tuple[int | None, int | None]:
    given = [facts.usage for facts in record.turns]
    return _sum([usage.input_tokens for usage in given]), _sum([usage.output_tokens for usage in given])


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
