"""How long recorded runs are kept: what is too old or too many goes, a little at a time."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable

AT_ONCE = 1_000
"""Runs that are deleted at most in one transaction."""

STALE = 3600
"""Seconds for which it is not written down again that a declaration is in use."""

_SLACK = 0.01  # of the runs that may be kept there may be too many, so that they are not counted after each batch
_AT_LATEST = 600.0  # seconds between two looks
_DAY = 86_400
_INDEX = "CREATE INDEX IF NOT EXISTS runs_of_agent ON runs (agent)"  # by which an agent's are counted, oldest first
_COUNT = "SELECT count(*) FROM runs WHERE agent = ?"
_OLDEST = "SELECT id, written FROM runs WHERE agent = ? ORDER BY id LIMIT ?"
_DELETE = "DELETE FROM runs WHERE agent = ? AND id <= ?"
_FIRST = "(SELECT written FROM runs ORDER BY id LIMIT 1)"
_FORGET = (
    f"DELETE FROM declarations WHERE written < {_FIRST} - {STALE}",
    f"DELETE FROM missed WHERE day < CAST({_FIRST} / {_DAY} AS INTEGER)",
)


class Retention:
    """Keeps runs for so many `days` after they were written, and the last `runs` of each agent.

    Only those of agents, by name, of which it was told that theirs are written: others may be kept longer.
    """

    def __init__(self, days: int, runs: int) -> None:
        self._seconds = days * _DAY
        self._runs = runs
        self._agents: set[str] = set()
        self._written = 0  # since the last look
        self._look_at = 0.0

    def due(self, agents: Iterable[str]) -> bool:
        """Whether it is time to look, after a run of each of these was written."""
        for agent in agents:
            self._agents.add(agent)
            self._written += 1
        return self._written >= max(self._runs * _SLACK, 1) or time.time() >= self._look_at

    def enforce(self, db: sqlite3.Connection) -> None:
        """Delete those of its agents that were written first, as far as they are too old or too many.

        SQLite uses their pages again, so that a file with as many runs as may be kept grows no more.
        """
        db.execute(_INDEX)
        now, left = time.time(), AT_ONCE
        for agent in sorted(self._agents):
            left -= self._shorten(db, agent, now - self._seconds, left)
        for statement in _FORGET:
            db.execute(statement)
        if left:
            self._written, self._look_at = 0, now + _AT_LATEST

    def _shorten(self, db: sqlite3.Connection, agent: str, oldest: float, most: int) -> int:
        """Delete up to so many runs of this agent; how many there were to be deleted."""
        (count,) = db.execute(_COUNT, (agent,)).fetchone()
        last, gone = 0, 0
        for number, written in db.execute(_OLDEST, (agent, most)):
            if count - gone <= self._runs and written >= oldest:
                break
            last, gone = number, gone + 1
        db.execute(_DELETE, (agent, last))
        if gone == count:
            self._agents.discard(agent)
        return gone
