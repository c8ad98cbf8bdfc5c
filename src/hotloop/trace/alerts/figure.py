"""The figure of a rule for one tool, model or row: its window, and whether it is over its limit."""

from __future__ import annotations

from hotloop.trace.alerts.rule import AlertRule
from hotloop.trace.alerts.signals import Reading, Signal
from hotloop.trace.window import Window

_MOST = 1000  # values in a window
_BACK = 0.9  # of the limit: only there an alert is over, so that it does not flap


class Figure:
    """What runs came to in the last minutes; `since` is when it went over its limit, None while it is not."""

    def __init__(self, rule: AlertRule, signal: Signal) -> None:
        self.since: float | None = None
        self._rule = rule
        self._limit = rule.limit
        self._signal = signal
        self._budget: float | None = None
        self._window = Window(rule.window, _MOST)
        self._with_earlier = Window(2 * rule.window, 2 * _MOST)
        self._earlier: float | None = None

    def __len__(self) -> int:
        """How many values it is made of."""
        return len(self._window)

    @property
    def limit(self) -> float | None:
        """What it may not be over; None if nobody has said so."""
        return self._budget if self._limit is None else self._limit

    def add(self, at: float, reading: Reading) -> None:
        """One more value."""
        self._budget = reading.limit
        self._window.add(at, reading.value, reading.weight)
        if self._signal.falls:
            self._with_earlier.add(at, reading.value, reading.weight)

    def value(self, now: float) -> float | None:
        """What it comes to; None if there are too few values."""
        self._window.forget(now)
        self._with_earlier.forget(now)
        if len(self._window) < self._rule.at_least:
            return None
        value = self._signal.sum_up(self._window)
        if not self._signal.falls:
            return value
        earlier = self._before() if self.since is None else self._earlier
        return None if earlier is None else earlier - value

    def turns(self, value: float | None, now: float) -> bool:
        """Whether it now goes over its limit, or comes back; then `since` says which."""
        if self.limit is None or (value is None and len(self)):
            return False
        if self.since is None:
            if value is None or value <= self.limit:
                return False
            self.since, self._earlier = now, self._before()
            return True
        if value is not None and value > self.limit * _BACK:
            return False
        self.since = None
        return True

    def _before(self) -> float | None:
        """The share of the window before this one; None if there are too few values."""
        if len(self._with_earlier) - len(self._window) < self._rule.at_least:
            return None
        weight = self._with_earlier.weight - self._window.weight
        return (self._with_earlier.total - self._window.total) / weight if weight else None
