"""What was learned, for all agents and processes that use one file: kept there, and in memory to act upon."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from sqlite3 import Connection
from typing import Any, NamedTuple

from hotloop.database import Database, state_path
from hotloop.tools.prefetch import stored
from hotloop.tools.prefetch.history import History, history_of
from hotloop.tools.prefetch.learning import Rows, learn
from hotloop.tools.prefetch.past import Past
from hotloop.tools.prefetch.patterns import Pattern
from hotloop.tools.prefetch.payoff import Payoff
from hotloop.tools.prefetch.stored import Known
from hotloop.trace.record import TraceRecord

_MOST_UNPROVEN = 5_000  # patterns that a process remembers and has not written down
_MOST_PAYOFFS = 1_000  # agents
_AT_A_TIME = 100  # runs that are learned from in one transaction
_ENOUGH = 4  # chances in a context of two turns; with fewer the context of one turn tells more
_SHARE, _AT_ONCE = 0.05, 2.0  # of a thread's time, and seconds of it, go into learning from runs as they end


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
        place = state_path("prefetch.db") if path is None else Path(path)
        self._database = Database(place, "learned calls", stored.SCHEMA)
        self.path = self._database.path
        self._known = _by_context(self.known())
        self._unproven: dict[tuple[str, str], dict[str, Pattern]] = {}
        self._time = Allowance(_SHARE, _AT_ONCE)
        self._payoffs: dict[str, Payoff] = {}

    def payoff_of(self, agent: str) -> Payoff:
        """Whether it pays for this agent, one for all of the process that have its name."""
        while len(self._payoffs) >= _MOST_PAYOFFS and agent not in self._payoffs:
            del self._payoffs[next(iter(self._payoffs))]
        return self._payoffs.setdefault(agent, Payoff())

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
        return sorted(found, key=lambda each: (-each.confidence, str(each.known.pattern)))

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
        return self._database.do_sync(lambda db: stored.proven(db, agent))

    def forget(self, agent: str | None = None) -> int:
        """Forget what was learned of one agent or of all; how many patterns."""

        def erase(db: Connection) -> int:
            self._unproven = {key: each for key, each in self._unproven.items() if agent not in (None, key[0])}
            self._known = {name: each for name, each in self._known.items() if agent not in (None, name)}
            return stored.forget(db, agent)

        return self._database.do_sync(erase)

    def _learn_all(self, histories: Sequence[History], db: Connection) -> int:
        digests = stored.digests_of(db)
        count = 0
        for history in histories:
            if stored.is_new(db, history, digests):
                count += 1
                changed: dict[str, Rows] = {}
                learn(history, partial(self._rows, db, history.agent, changed), digests)
                for context, rows in changed.items():
                    stored.write(db, history.agent, context, rows)
                    self._remember(history.agent, context, rows)
        if stored.make_room(db):
            self._known = _by_context(stored.proven(db))
        return count

    def _rows(self, db: Connection, agent: str, changed: dict[str, Rows], context: str) -> Rows:
        """The rows of a context, read when they are asked for first."""
        if context not in changed:
            changed[context] = stored.read(db, agent, context, self._unproven.get((agent, context), {}))
        return changed[context]

    def _remember(self, agent: str, context: str, rows: Rows) -> None:
        patterns = [(name, row, row.pattern) for name, row in rows.items() if row.pattern is not None]
        known = [Known(agent, context, name, pattern, row.counts) for name, row, pattern in patterns if row.proven]
        if known or agent in self._known:
            self._known.setdefault(agent, {})[context] = known
        self._unproven.pop((agent, context), None)
        self._unproven[agent, context] = {name: pattern for name, row, pattern in patterns if not row.proven}
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


def _by_context(known: Iterable[Known]) -> dict[str, dict[str, list[Known]]]:
    found: dict[str, dict[str, list[Known]]] = {}
    for each in known:
        found.setdefault(each.agent, {}).setdefault(each.context, []).append(each)
    return found


_all: dict[Path, Learned] = {}
_making = threading.Lock()
