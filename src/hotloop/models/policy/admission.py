"""Who may send a request now: so many at once, as fast as the rate limits allow, in order of arrival."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import deque
from itertools import chain
from typing import NamedTuple

from hotloop.errors import ServiceBusy
from hotloop.models.policy.policy import Policy
from hotloop.models.policy.ratelimits import Headers, RateLimits, tells_limits
from hotloop.units import Clock, ns, show_span


class HeldUp(NamedTuple):
    """For how long (ns) limits of a service held a request up, and which, in words."""

    ns: int
    why: str


class Admission:
    """The places in front of one service, and the queue for them: background waits until no one else does.

    Agents on several event loops in several threads may share one. Whoever has entered must `leave`. Times are
    nanoseconds of one clock. `inside` is how many places are taken, where the policy counts them;
    `free` tells that whoever comes may go, because places are not counted and nothing is known of rate limits,
    `counts` that who has entered must leave.
    """

    def __init__(self, policy: Policy) -> None:
        self.inside = 0
        self.free = policy.max_concurrent is None
        self.counts = not self.free
        self._most = policy.max_concurrent or sys.maxsize
        self._most_queued = policy.max_queued
        self._limits = RateLimits()
        self._held_for = self._held_until = 0
        self._why_held = ""
        self._foreground: deque[_Waiter] = deque()
        self._background: deque[_Waiter] = deque()
        self._lock = threading.Lock()

    @property
    def queued(self) -> int:
        """How many wait."""
        return len(self._foreground) + len(self._background)

    def try_enter(self, tokens: int, now: int, *, background: bool = False) -> bool:
        """Take a place for a request of so many tokens if that can be done without waiting."""
        if self.free:
            return True
        with self._lock:
            if self._foreground or (background and self._background) or self.inside >= self._most:
                return False
            if self._limits.wait(tokens, now):
                return False
            self._take(tokens, now)
            return True

    async def enter(self, tokens: int, *, clock: Clock, background: bool = False, left: float | None = None) -> HeldUp:
        """Take a place for a request of so many tokens, after those who came before.

        Returns what of the wait was for the service's limits. Raises ServiceBusy if the queue is full, and as soon as
        it is known that no place comes free within `left` seconds. When cancelled, no place is taken.
        """
        now = clock()
        if self.try_enter(tokens, now, background=background):
            return HeldUp(0, "")
        waiter = _Waiter(tokens, None if left is None else now + ns(left))
        line = self._background if background else self._foreground
        self._line_up(waiter, line, now)
        try:
            while (pause := self._step(waiter, line, clock())) != 0:
                await waiter.turn_or(pause)
        finally:
            with self._lock:
                if waiter in line:
                    line.remove(waiter)
            self._wake_next()
        return HeldUp(self._held_up(clock()) - waiter.held_up, self._why_held)

    def leave(self) -> None:
        """Give the place back."""
        if not self.counts:
            return
        with self._lock:
            self.inside -= 1
        self._wake_next()

    def learn(self, headers: Headers, at: int, sent: int) -> None:
        """Take over what the headers of a reply say of rate limits; they came at `at`, their request went at `sent`."""
        if not tells_limits(headers):
            return
        with self._lock:
            self.free = not self._limits.learn(headers, at, sent) and self.free
        self._wake_next()

    def hold(self, until: int) -> None:
        """Let nobody in before `until`: the service asked for it."""
        with self._lock:
            self._limits.hold(until)
            self.free = False
        self._wake_next()  # who waits learns that it may be in vain

    def _take(self, tokens: int, now: int) -> None:
        self.inside += self.counts
        self._limits.spend(tokens, now)

    def _line_up(self, waiter: _Waiter, line: deque[_Waiter], now: int) -> None:
        with self._lock:
            if self.queued >= self._most_queued:
                raise ServiceBusy(
                    f"The queue in front of the service is full (waiting: {self.queued:,}). Raise max_concurrent or "
                    "max_queued in its policy, or ask less at once."
                )
            if waiter.until is not None:
                ahead = [each.tokens for each in chain(self._foreground, line if line is self._background else ())]
                wait = self._limits.wait(waiter.tokens, now, requests_ahead=len(ahead), tokens_ahead=sum(ahead))
                self._require_time(waiter, wait, now)
            waiter.held_up = self._held_up(now)
            line.append(waiter)

    def _step(self, waiter: _Waiter, line: deque[_Waiter], now: int) -> int | None:
        """0: it is in. Else how long to wait before looking again, None for as long as it takes."""
        with self._lock:
            wait = None
            if waiter is self._next() and self.inside < self._most:
                wait = self._limits.wait(waiter.tokens, now)
                if not wait:
                    line.popleft()
                    self._take(waiter.tokens, now)
                    return 0
                self._hold_up(now, now + wait, self._limits.reason(waiter.tokens, now))
            if waiter.until is None:
                return wait
            self._require_time(waiter, wait or 1, now)
            return waiter.until - now if wait is None else wait

    def _require_time(self, waiter: _Waiter, wait: int, now: int) -> None:
        left = (waiter.until or 0) - now
        if wait <= left:
            return
        if left > 0:
            raise ServiceBusy(
                f"The service cannot be asked in time: {self._limits.reason(waiter.tokens, now)} for another "
                f"{show_span(wait)}, and only {show_span(left)} are left."
            )
        limited = self._limits.wait(waiter.tokens, now) > 0
        why = self._limits.reason(waiter.tokens, now) if limited else "all its places are taken"
        raise ServiceBusy(
            f"The service could not be asked in the time that was left: {why} (waiting: {self.queued:,})."
        )

    def _hold_up(self, now: int, until: int, why: str) -> None:
        """A limit holds up the first in the line, and with it all behind."""
        self._held_for += max(0, until - max(now, self._held_until))
        self._held_until, self._why_held = max(until, self._held_until), why

    def _held_up(self, now: int) -> int:
        """For how long limits have held up whoever was first, by now."""
        return self._held_for - max(0, self._held_until - now)

    def _next(self) -> _Waiter | None:
        return next(chain(self._foreground, self._background), None)

    def _wake_next(self) -> None:
        """Let the first in the line look again; the others do when it is gone."""
        if not (self._foreground or self._background):
            return
        with self._lock:
            while (waiter := self._next()) is not None and not waiter.wake():
                (self._foreground or self._background).popleft()


class _Waiter:
    """One request in the line, until a moment or for as long as it takes.

    `held_up` is for how long limits had held up others when it came.
    """

    def __init__(self, tokens: int, until: int | None) -> None:
        self.tokens = tokens
        self.until = until
        self.held_up = 0
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Event()

    def wake(self) -> bool:
        """Let it look again, from any thread; False if its event loop is closed, and it with it."""
        try:
            self._loop.call_soon_threadsafe(self._turn.set)
        except RuntimeError:
            return False
        return True

    async def turn_or(self, pause: int | None) -> None:
        """Wait to be woken, for at most `pause` nanoseconds."""
        timer = None if pause is None else self._loop.call_later(pause / 1e9, self._turn.set)
        try:
            await self._turn.wait()
        finally:
            if timer is not None:
                timer.cancel()
        self._turn.clear()
