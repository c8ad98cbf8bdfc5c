"""What was learned, kept in SQLite for all agents and processes that use one file, and in memory to act upon."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from sqlite3 import Connection
from typing import Any, NamedTuple

import msgspec

from hotloop.database import Database, state_path
from hotloop.tools.prefetch.history import History, history_of
from hotloop.tools.prefetch.learning import Digests, Row, Rows, learn
from hotloop.tools.prefetch.past import Past
from hotloop.tools.prefetch.patterns import Counts, Pattern
from hotloop.trace.record import TraceRecord

_MOST = 20_000  # patterns in a file
_MOST_RUNS = 100_000  # runs that are known to have been learned from
_MOST_UNPROVEN = 5_000  # patterns that a process remembers and has not written down
_AT_A_TIME = 100  # runs that are learned from in one transaction
_ENOUGH = 4  # chances in a context of two turns; with fewer the context of one turn tells more
_SCHEMA = (
    """CREATE TABLE patterns (
        agent TEXT NOT NULL, context TEXT NOT NULL, name TEXT NOT NULL, pattern TEXT, seen BLOB NOT NULL,
        chances REAL NOT NULL, hits REAL NOT NULL, started REAL NOT NULL, used REAL NOT NULL, won REAL NOT NULL,
        wasted REAL NOT NULL, at REAL NOT NULL, PRIMARY KEY (agent, context, name)) WITHOUT ROWID""",
    "CREATE INDEX patterns_by_time ON patterns (at)",
    "CREATE TABLE runs (run BLOB PRIMARY KEY, agent TEXT NOT NULL, at REAL NOT NULL) WITHOUT ROWID",
    "CREATE INDEX runs_by_time ON runs (at)",
    "CREATE TABLE secret AS SELECT randomblob(16) AS secret",
)
_COUNTS = "chances, hits, started, used, won, wasted, at"
_ROWS = f"SELECT name, pattern, seen, {_COUNTS} FROM patterns WHERE agent = ? AND context = ?"
_ALL = f"SELECT agent, context, name, pattern, {_COUNTS} FROM patterns WHERE pattern IS NOT NULL"
_INSERT = "INSERT INTO patterns VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_OLDEST = "DELETE FROM {0} WHERE at < (SELECT at FROM {0} ORDER BY at DESC LIMIT 1 OFFSET ?)"
_DIGEST = 8  # bytes
_SHARE, _AT_ONCE = 0.05, 2.0  # of a thread's time, and seconds of it, go into learning from runs as they end


class Known(NamedTuple):
    """A pattern that is proven: of which agent, in which context, under which name, and how it did."""

    agent: str
    context: str
    name: str
    pattern: Pattern
    counts: Counts


class Expected(NamedTuple):
    """A call that tends to come next: by which pattern, with which arguments, and how sure that is at least."""

    known: Known
    arguments: dict[str, Any]
    confidence: float


class Learned:
    """The patterns in the file at `path`, None for the usual one in the state folder. An `Exporter`: it learns records.

    Making one, and each method but `expected`, raises ConfigError when the file cannot be used.
    """

    content = True  # it needs what was said, and keeps nothing of it

    def __init__(self, path: str | Path | None = None) -> None:
        self._database = Database(state_path("prefetch.db") if path is None else Path(path), "learned calls", _SCHEMA)
        self.path = self._database.path
        self._known: dict[str, dict[str, list[Known]]] = {}
        self._unproven: dict[tuple[str, str], dict[str, Pattern]] = {}
        self._time = Allowance(_SHARE, _AT_ONCE)
        for known in self.known():
            self._known.setdefault(known.agent, {}).setdefault(known.context, []).append(known)

    def knows(self, agent: str) -> bool:
        """Whether there is anything to expect of this agent."""
        return agent in self._known

    def expected(self, agent: str, past: Past, least: float, now: float) -> list[Expected]:
        """The calls that tend to come next, of at least this confidence, the surest first.

        What came after two turns like the last two decides, and where that is not known well what came after one.
        """
        found: list[Expected] = []
        learned = self._known.get(agent, {})
        decided: set[Pattern] = set()
        contexts = past.contexts()
        for context in contexts:
            for known in learned.get(context, ()):
                if known.pattern in decided or (known.counts.chances < _ENOUGH and context != contexts[-1]):
                    continue
                decided.add(known.pattern)
                confidence = known.counts.confidence(now)
                if confidence >= least and (arguments := known.pattern.fill(past)) is not None:
                    found.append(Expected(known, arguments, confidence))
        return sorted(found, key=lambda each: -each.confidence)

    def export(self, records: Sequence[TraceRecord]) -> None:
        """Learn from these runs, or from as many as there is time for."""
        for record in records:
            with self._time as some:
                if some and (history := history_of(record)) is not None:
                    self.learn([history])

    def learn(self, histories: Iterable[History]) -> int:
        """Learn from these runs; from how many, for none is learned from twice."""
        left, count = iter(histories), 0
        while some := list(islice(left, _AT_A_TIME)):
            count += self._database.do_sync(partial(self._learn_all, some))
        return count

    def close(self) -> None:
        """Close the file; it is opened again when it is used again."""
        self._database.close()

    def known(self, agent: str | None = None) -> list[Known]:
        """All that is proven, of one agent or of all."""
        condition, values = ("", ()) if agent is None else (" AND agent = ?", (agent,))
        rows = self._database.do_sync(lambda db: db.execute(f"{_ALL}{condition}", values).fetchall())
        return [Known(whose, context, name, _decode(text), Counts(*c)) for whose, context, name, text, *c in rows]

    def forget(self, agent: str | None = None) -> int:
        """Forget what was learned of one agent or of all; how many patterns."""
        where, values = ("", ()) if agent is None else (" WHERE agent = ?", (agent,))

        def erase(db: Connection) -> int:
            db.execute(f"DELETE FROM runs{where}", values)
            for name in [name for name in self._known if agent in (None, name)]:
                del self._known[name]
            for key in [key for key in self._unproven if agent in (None, key[0])]:
                del self._unproven[key]
            (count,) = db.execute(f"SELECT count(pattern) FROM patterns{where}", values).fetchone()
            db.execute(f"DELETE FROM patterns{where}", values)
            return int(count)

        return self._database.do_sync(erase)

    def _learn_all(self, histories: Iterable[History], db: Connection) -> int:
        return sum(self._learn(db, history) for history in histories)

    def _learn(self, db: Connection, history: History) -> bool:
        digests = Digests(db.execute("SELECT secret FROM secret").fetchone()[0])
        run = digests.of(history.run.encode())
        if not db.execute("INSERT OR IGNORE INTO runs VALUES (?, ?, ?)", (run, history.agent, history.at)).rowcount:
            return False
        changed: dict[str, Rows] = {}

        def rows_of(context: str) -> Rows:
            if context not in changed:
                changed[context] = self._read(db, history.agent, context)
            return changed[context]

        learn(history, rows_of, digests)
        for context, rows in changed.items():
            self._write(db, history.agent, context, rows)
        for table, most in (("patterns", _MOST), ("runs", _MOST_RUNS)):
            db.execute(_OLDEST.format(table), (most - 1,))
        return True

    def _read(self, db: Connection, agent: str, context: str) -> Rows:
        unproven = self._unproven.get((agent, context), {})
        return {
            name: Row(_decode(text) if text else unproven.get(name), Counts(*counts), _split(seen))
            for name, text, seen, *counts in db.execute(_ROWS, (agent, context))
        }

    def _write(self, db: Connection, agent: str, context: str, rows: Rows) -> None:
        """Write down what is known in a context; of what is not proven only that it was seen, and how often."""
        db.execute("DELETE FROM patterns WHERE agent = ? AND context = ?", (agent, context))
        unproven: dict[str, Pattern] = {}
        known: list[Known] = []
        for name, row in rows.items():
            text = None
            if row.pattern is not None and row.proven:
                text = msgspec.json.encode(row.pattern).decode()
                known.append(Known(agent, context, name, row.pattern, row.counts))
            elif row.pattern is not None:
                unproven[name] = row.pattern
            counts = msgspec.structs.astuple(row.counts)
            db.execute(_INSERT, (agent, context, name, text, b"".join(row.seen), *counts))
        if known or agent in self._known:
            self._known.setdefault(agent, {})[context] = known
        self._remember(agent, context, unproven)

    def _remember(self, agent: str, context: str, unproven: dict[str, Pattern]) -> None:
        self._unproven.pop((agent, context), None)
        self._unproven[agent, context] = unproven
        while sum(map(len, self._unproven.values())) > _MOST_UNPROVEN:
            del self._unproven[next(iter(self._unproven))]


class Allowance:
    """Time to be used: this share of all the time that goes by, of which `most` seconds can be saved up."""

    def __init__(self, share: float, most: float) -> None:
        self._share, self._most, self._left = share, most, most
        self._at = time.monotonic()

    def __enter__(self) -> bool:
        """Use it; whether there is any."""
        now = time.monotonic()
        self._left = min(self._left + (now - self._at) * self._share, self._most)
        self._at = now
        return self._left > 0

    def __exit__(self, *_: object) -> None:
        self._left -= time.monotonic() - self._at


def learned_at(path: str | Path | None = None) -> Learned:
    """What was learned in this file, one for all agents of the process. Raises ConfigError."""
    place = state_path("prefetch.db") if path is None else Path(path).expanduser().absolute()
    with _making:
        if place not in _all:
            _all[place] = Learned(place)
        return _all[place]


def _split(seen: bytes) -> tuple[bytes, ...]:
    return tuple(seen[at : at + _DIGEST] for at in range(0, len(seen), _DIGEST))


_decode = msgspec.json.Decoder(Pattern).decode
_all: dict[Path, Learned] = {}
_making = threading.Lock()
