"""How long recorded runs are kept: what is too old or too many goes, a little at a time."""

from __future__ import annotations

import sqlite3
import time

AT_ONCE = 1_000
"""Runs that are deleted at most in one transaction."""

STALE = 3600
"""Seconds for which it is not written down again that a declaration is in use."""

_SLACK = 0.01  # of the runs that may be kept there may be too many, so that they are not counted after each batch
_AT_LATEST = 600.0  # seconds between two looks
_DAY = 86_400
_OLDEST = "SELECT id, written FROM runs ORDER BY id LIMIT ?"
_FORGET = f"DELETE FROM declarations WHERE written < (SELECT written - {STALE} FROM runs ORDER BY id LIMIT 1)"


class Retention:
    """Keeps runs for so many `days` after they were written, and the last `runs` of them."""

    def __init__(self, days: int, runs: int) -> None:
        self._seconds = days * _DAY
        self._runs = runs
        self._written = 0  # since the last look
        self._look_at = 0.0

    def due(self, written: int) -> bool:
        """Whether it is time to look, after so many more were written."""
        self._written += written
        return self._written >= max(self._runs * _SLACK, 1) or time.time() >= self._look_at

    def enforce(self, db: sqlite3.Connection) -> None:
        """Delete those that were written first, as far as they are too old or too many.

        SQLite uses their pages again, so that a file with as many runs as may be kept grows no more.
        """
        (count,) = db.execute("SELECT count(*) FROM runs").fetchone()
        now, last, gone = time.time(), 0, 0
        for number, written in db.execute(_OLDEST, (AT_ONCE,)):
            if count - gone <= self._runs and written >= now - self._seconds:
                break
            last, gone = number, gone + 1
        db.execute("DELETE FROM runs WHERE id <= ?", (last,))
        db.execute("DELETE FROM missed WHERE day < ?", (int(now - self._seconds) // _DAY,))
        db.execute(_FORGET)
        if gone < AT_ONCE:
            self._written, self._look_at = 0, now + _AT_LATEST
