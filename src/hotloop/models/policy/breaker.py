"""Whether a service may be asked now, or failed so often lately that it is left alone for a while."""

from __future__ import annotations

import threading

from hotloop.models.policy.policy import Breaker
from hotloop.units import ns, show_span

_FAILED, _SLOW = 1, 2


class CircuitBreaker:
    """Closed (requests go), open (none goes until the service has rested) or half open (a few go, as probes).

    All times are nanoseconds of one clock, given by the caller. Threads may share a breaker. While it `is_open` or half
    open, `wait` has to be asked.
    """

    __slots__ = (
        "_cool",
        "_count",
        "_failed",
        "_lock",
        "_outcomes",
        "_probes",
        "_settings",
        "_slow",
        "_slow_call",
        "_spotless",
        "_succeeded",
        "_told",
        "_under_way",
        "_until",
        "is_open",
    )

    def __init__(self, settings: Breaker) -> None:
        self._settings = settings
        self._cool = ns(settings.cool)
        self._slow_call = None if settings.slow_call is None else ns(settings.slow_call)
        self._lock = threading.Lock()
        self._until = 0  # open: when probes may go; half open: when probes that never reported are given up
        self._told = ""
        self.is_open = False
        self._under_way = self._probes = self._succeeded = (
            0  # of probes: sent, still to be answered well, answered well
        )
        self._close()

    def wait(self, now: int) -> int:
        """0: the request may go, and has to be reported with `record` or `release`. Else nanoseconds until it may."""
        if not self.is_open:
            return 0
        with self._lock:
            if now < self._until and self._under_way >= self._probes:
                return self._until - now
            if now >= self._until:
                self._under_way, self._probes = 0, self._settings.probes - self._succeeded
                self._until = now + self._cool
            self._under_way += 1
            return 0

    def record(self, now: int, *, failed: bool, ttft: int | None) -> None:
        """A request has ended; `ttft` is how long its first token took, None if that is not known.

        What was sent before the service was closed off counts like a probe: it tells how the service does now.
        """
        slow = ttft is not None and self._slow_call is not None and ttft > self._slow_call
        if self._spotless and not (failed or slow):
            return  # one good request more in a window full of them
        with self._lock:
            if not self.is_open:
                self._count_in(now, failed * _FAILED | slow * _SLOW)
            elif self._probes:
                self._probed(now, failed or slow)

    def release(self) -> None:
        """A request that `wait` let go was cancelled or never sent: it tells nothing, and another may go instead."""
        if self.is_open:
            with self._lock:
                self._under_way = max(0, self._under_way - 1)

    def describe(self, now: int) -> str:
        """Why the service is left alone, as a phrase: "12 of the last 20 requests failed"; "" if it is not."""
        return self._told if self.is_open else ""

    def _count_in(self, now: int, outcome: int) -> None:
        settings, place = self._settings, self._count % self._settings.window
        before = self._outcomes[place]
        self._outcomes[place] = outcome
        self._count += 1
        self._failed += (outcome & _FAILED) - (before & _FAILED)
        self._slow += ((outcome & _SLOW) - (before & _SLOW)) >> 1
        known = min(self._count, settings.window)
        self._spotless = known == settings.window and not (self._failed or self._slow)
        if known < settings.at_least or not (self._failed or self._slow):
            return
        if self._failed >= settings.failure_rate * known:
            self._rest(now, f"{self._failed} of the last {known} requests failed")
        elif self._slow >= settings.slow_rate * known:
            limit = show_span(self._slow_call or 0)
            self._rest(now, f"{self._slow} of the last {known} requests took more than {limit} to their first token")

    def _probed(self, now: int, bad: bool) -> None:
        if bad:
            self._rest(now, f"{self._told.partition(',')[0]}, and so did one that was tried since")
            return
        self._under_way = max(0, self._under_way - 1)
        self._probes -= 1
        self._succeeded += 1
        if self._succeeded >= self._settings.probes:
            self._close()

    def _rest(self, now: int, told: str) -> None:
        self._told, self._until = told, now + self._cool
        self._under_way = self._probes = self._succeeded = 0
        self.is_open, self._spotless = True, False

    def _close(self) -> None:
        self._outcomes = bytearray(self._settings.window)
        self._count = self._failed = self._slow = 0
        self.is_open = self._spotless = False
