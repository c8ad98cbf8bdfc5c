"""The values of the last minutes, bounded in number too."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque

from hotloop.trace.stats import percentile_in_order


class Window:
    """Values with the times (Unix seconds) and weights they came with, of the last `seconds`, at most `most` of them.

    `total` and `weight` are their sums.
    """

    def __init__(self, seconds: float, most: int) -> None:
        self.total = self.weight = 0.0
        self._seconds = seconds
        self._most = most
        self._came: deque[tuple[float, float, float]] = deque()
        self._sorted: list[float] = []

    def __len__(self) -> int:
        return len(self._came)

    def add(self, at: float, value: float, weight: float = 1.0) -> None:
        """Add a value; it takes the place of the oldest one when the window is full."""
        if len(self._came) == self._most:
            self._drop()
        self._came.append((at, value, weight))
        self.total += value
        self.weight += weight
        insort(self._sorted, value)

    def forget(self, now: float) -> None:
        """Leave out what is too old."""
        while self._came and self._came[0][0] <= now - self._seconds:
            self._drop()

    def percentile(self, percent: float) -> float:
        """The nearest-rank percentile of the values. Raises ValueError when there are none."""
        return percentile_in_order(self._sorted, percent)

    def _drop(self) -> None:
        _, value, weight = self._came.popleft()
        self.total -= value
        self.weight -= weight
        del self._sorted[bisect_left(self._sorted, value)]
