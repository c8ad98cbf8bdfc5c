"""Runs an engine on the clock of the event loop, real or virtual: one alarm for all replies."""

from __future__ import annotations

from hotloop.lab.engines.work import Engine, Work
from hotloop.lab.timer import Alarm, make_alarm
from hotloop.units import clock


class Driver:
    """Takes requests to `engine` and has its tokens delivered when they are due. To be used on a running loop.

    It holds a timer only while there is something to do, unless it was opened: then until it is closed.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._alarm: Alarm | None = None
        self._opened = False

    def open(self) -> None:
        """Keep the timer between works: to make one takes as long as several writes."""
        self._opened = True

    def submit(self, work: Work) -> None:
        """A request was sent just now."""
        now = clock()()
        self._engine.arrive(work, now)
        self._advance(now)

    def leave(self, work: Work) -> None:
        """Nobody waits for it any longer; nothing happens if it is done."""
        self._engine.leave(work, clock()())
        self._arm()

    def close(self) -> None:
        """Deliver nothing more."""
        self._opened = False
        self._let_go()

    def _ring(self) -> None:
        self._advance(clock()())

    def _advance(self, now: int) -> None:
        for work in self._engine.advance(now):
            work.deliver(work)
        self._arm()

    def _arm(self) -> None:
        due = self._engine.next()
        if due is None and not self._opened:
            self._let_go()
            return
        if self._alarm is None and due is not None:
            self._alarm = make_alarm(self._ring)
        if self._alarm is not None:
            self._alarm.set(due)

    def _let_go(self) -> None:
        if self._alarm is not None:
            self._alarm.close()
            self._alarm = None
