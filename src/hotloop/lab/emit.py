"""Writes the pieces of a reply at their deadlines, and counts how well it kept them."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from hotloop.lab.httpd import Exchange
from hotloop.lab.timer import DeadlineTimer
from hotloop.units import NS_PER_MS


class Stats(msgspec.Struct):
    """What a service did so far: `open` replies are under way, `abandoned` ones lost their client.

    `tokens` counts pieces written: one for each token of a stream, one for a whole body. `late_tokens` of them were
    overdue by a whole `tpot` and went out with the next; `late_ms` is the worst delay of any write.
    """

    requests: int = 0
    open: int = 0
    abandoned: int = 0
    tokens: int = 0
    late_tokens: int = 0
    late_ms: float = 0.0


class Emitter:
    """Writes `pieces` to `exchange`, the first at `start`, the others `gap` nanoseconds apart; then ends the exchange.

    What is overdue goes out together with what is due. Without a gap everything is one write.
    """

    __slots__ = ("_exchange", "_gap", "_next", "_pieces", "_start", "_stats", "_timer")

    def __init__(
        self,
        exchange: Exchange,
        pieces: Sequence[bytes],
        start: int,
        gap: int,
        timer: DeadlineTimer,
        stats: Stats,
    ) -> None:
        self._exchange = exchange
        self._pieces = pieces
        self._start = start
        self._gap = gap
        self._timer = timer
        self._stats = stats
        self._next = 0
        stats.open += 1
        now = time.monotonic_ns()
        if start <= now:
            self(now)
        else:
            timer.at(start, self)

    def __call__(self, now: int) -> None:
        """A deadline has passed."""
        first, count = self._next, len(self._pieces)
        if self._exchange.abandoned:
            self._stats.abandoned += 1
            self._finish()
            return
        behind = now - self._start - first * self._gap
        due = min(count, first + 1 + behind // self._gap) if self._gap else count
        self._exchange.write(self._pieces[first] if due == first + 1 else b"".join(self._pieces[first:due]))
        self._record(due - first, behind)
        self._next = due
        if due < count:
            self._timer.at(self._start + due * self._gap, self)
        else:
            self._finish()

    def _record(self, pieces: int, behind: int) -> None:
        stats = self._stats
        stats.tokens += pieces
        stats.late_tokens += pieces - 1 if self._gap else 0
        stats.late_ms = max(stats.late_ms, behind / NS_PER_MS)

    def _finish(self) -> None:
        self._stats.open -= 1
        self._exchange.end()
