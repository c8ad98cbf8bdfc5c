"""Patterns in SQLite: the tables, and everything that is done with them."""

from __future__ import annotations

from sqlite3 import Connection
from typing import NamedTuple

import msgspec

from hotloop.tools.prefetch.history import History
from hotloop.tools.prefetch.learning import Digests, Row, Rows
from hotloop.tools.prefetch.patterns import Counts, Pattern

SCHEMA = (
    """CREATE TABLE patterns (
        agent TEXT NOT NULL, context TEXT NOT NULL, name TEXT NOT NULL, pattern TEXT, seen BLOB NOT NULL,
        chances REAL NOT NULL, hits REAL NOT NULL, started REAL NOT NULL, used REAL NOT NULL, won REAL NOT NULL,
        wasted REAL NOT NULL, at REAL NOT NULL, PRIMARY KEY (agent, context, name)) WITHOUT ROWID""",
    "CREATE INDEX patterns_by_time ON patterns (at)",
    "CREATE TABLE runs (run BLOB PRIMARY KEY, agent TEXT NOT NULL, at REAL NOT NULL) WITHOUT ROWID",
    "CREATE INDEX runs_by_time ON runs (at)",
    "CREATE TABLE secret AS SELECT randomblob(16) AS secret",
)

_MOST = {"patterns": 20_000, "runs": 100_000}
_DIGEST = 8  # bytes
_COUNTS = "chances, hits, started, used, won, wasted, at"
_ROWS = f"SELECT name, pattern, seen, {_COUNTS} FROM patterns WHERE agent = ? AND context = ?"
_PROVEN = f"SELECT agent, context, name, pattern, {_COUNTS} FROM patterns WHERE pattern IS NOT NULL"
_INSERT = "INSERT INTO patterns VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_OLDEST = "DELETE FROM {0} WHERE at <= (SELECT at FROM {0} ORDER BY at LIMIT 1 OFFSET ?)"


class Known(NamedTuple):
    """A pattern that is proven: of which agent, in which context, under which name, and how it did."""

    agent: str
    context: str
    name: str
    pattern: Pattern
    counts: Counts


def digests_of(db: Connection) -> Digests:
    """What stands for texts in this file."""
    return Digests(db.execute("SELECT secret FROM secret").fetchone()[0])


def is_new(db: Connection, history: History, digests: Digests) -> bool:
    """Whether nothing was learned from this run before; from now on it was."""
    run = digests.of(history.run.encode())
    return bool(db.execute("INSERT OR IGNORE INTO runs VALUES (?, ?, ?)", (run, history.agent, history.at)).rowcount)


def read(db: Connection, agent: str, context: str, unproven: dict[str, Pattern]) -> Rows:
    """What is known in a context, with the patterns that this process alone knows."""
    return {
        name: Row(_decode(text) if text else unproven.get(name), Counts(*counts), _split(seen))
        for name, text, seen, *counts in db.execute(_ROWS, (agent, context))
    }


def write(db: Connection, agent: str, context: str, rows: Rows) -> None:
    """Write down what is known in a context; of what is not proven only that it was seen, and how often."""
    db.execute("DELETE FROM patterns WHERE agent = ? AND context = ?", (agent, context))
    for name, row in rows.items():
        text = msgspec.json.encode(row.pattern).decode() if row.proven and row.pattern is not None else None
        counts = msgspec.structs.astuple(row.counts)
        db.execute(_INSERT, (agent, context, name, text, b"".join(row.seen), *counts))


def proven(db: Connection, agent: str | None = None) -> list[Known]:
    """All that is proven, of one agent or of all."""
    condition, values = ("", ()) if agent is None else (" AND agent = ?", (agent,))
    rows = db.execute(_PROVEN + condition, values)
    return [Known(whose, context, name, _decode(text), Counts(*counts)) for whose, context, name, text, *counts in rows]


def forget(db: Connection, agent: str | None = None) -> int:
    """Forget what was learned of one agent or of all; how many proven patterns that were."""
    where, values = ("", ()) if agent is None else (" WHERE agent = ?", (agent,))
    (count,) = db.execute(f"SELECT count(pattern) FROM patterns{where}", values).fetchone()
    for table in _MOST:
        db.execute(f"DELETE FROM {table}{where}", values)
    return int(count)


def make_room(db: Connection) -> bool:
    """Forget the oldest tenth of what has become too much; whether patterns were among it."""
    full = [table for table, most in _MOST.items() if _count(db, table) > most]
    for table in full:
        db.execute(_OLDEST.format(table), (_count(db, table) - _MOST[table] * 9 // 10,))
    return "patterns" in full


def _count(db: Connection, table: str) -> int:
    return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def _split(seen: bytes) -> tuple[bytes, ...]:
    return tuple(seen[at : at + _DIGEST] for at in range(0, len(seen), _DIGEST))


_decode = msgspec.json.Decoder(Pattern).decode
