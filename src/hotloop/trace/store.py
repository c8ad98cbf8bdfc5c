"""Where records of runs are kept: a SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from hotloop.database import Database, state_path
from hotloop.trace.record import TraceRecord

_SCHEMA = (
    "CREATE TABLE runs (id INTEGER PRIMARY KEY, trace_id TEXT NOT NULL, agent TEXT NOT NULL, version TEXT NOT NULL, "
    "session TEXT NOT NULL, source TEXT NOT NULL, started REAL NOT NULL, took INTEGER NOT NULL, outcome TEXT NOT NULL, "
    "record BLOB NOT NULL)",
    "CREATE INDEX runs_by_time ON runs (started)",
)
_INSERT = (
    "INSERT INTO runs (trace_id, agent, version, session, source, started, took, outcome, record) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


class Which(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs: those of this session, agent, version and source, of this time (Unix seconds), `slow` (that many
    seconds or more) or `failed`; the last `limit` of them."""

    session: str | None = None
    agent: str | None = None
    version: str | None = None
    source: str | None = None
    since: float | None = None
    until: float | None = None
    slow: float | None = None
    failed: bool = False
    limit: int | None = None


class TraceStore:
    """An `Exporter` that keeps records in the file at `path`, None for the usual one."""

    def __init__(self, path: str | Path | None = None) -> None:
        self._database = Database(state_path("traces.db") if path is None else Path(path), "traces", _SCHEMA)

    def export(self, records: Sequence[TraceRecord]) -> None:
        """See `Exporter`."""
        rows = [_row(record) for record in records]
        self._database.do_sync(lambda db: db.executemany(_INSERT, rows))

    def close(self) -> None:
        """See `Exporter`."""
        self._database.close()

    def find(self, which: Which) -> Iterator[TraceRecord]:
        """The records of these runs, the oldest first."""

        def read(db: sqlite3.Connection) -> list[bytes]:
            return [blob for (blob,) in db.execute("SELECT record FROM runs ORDER BY started")]

        return map(msgspec.msgpack.Decoder(TraceRecord).decode, self._database.do_sync(read))


def _row(record: TraceRecord) -> tuple[object, ...]:
    took = record.end - record.start
    whose = (record.trace_id, record.name, record.version, record.session, record.source)
    return (*whose, record.started, took, record.outcome, msgspec.msgpack.encode(record))
