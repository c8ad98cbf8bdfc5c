"""Whether calls that are begun ahead pay: each pattern by what it won and wasted, an agent by how long turns took."""

from __future__ import annotations

import math
from collections import deque
from statistics import fmean, variance

from hotloop.tools.prefetch.patterns import Counts

_TRIALS = 8  # calls of a pattern, before it is judged
_LEAST = 1.0  # milliseconds that a call has to win in the mean
_RETRY = 32  # a pattern that does not pay is tried in one chance of so many
_CONTROL = 16  # one turn in so many is without, so that there is something to compare with
_KEPT = 64
_ENOUGH = 6  # turns without, before they are judged
_SURE = 2.0  # standard errors by which turns with have to be slower
_MOST_SKIPPED = 1_000  # patterns
_AGAIN = 256  # chances after which a verdict is forgotten


def pays(counts: Counts) -> bool:
    """Whether a pattern has won more time than it has wasted work, and enough for a call to be worth its trouble."""
    return counts.started < _TRIALS or (counts.won >= counts.wasted and counts.won >= _LEAST * counts.started)


class Payoff:
    """Compares the turns of one agent in which calls were expected: how long its calls took after the reply (ns)."""

    def __init__(self) -> None:
        self._with: deque[int] = deque(maxlen=_KEPT)
        self._without: deque[int] = deque(maxlen=_KEPT)
        self._chances = 0
        self._skipped: dict[str, int] = {}

    @property
    def off(self) -> bool:
        """Whether turns with calls begun ahead were slower than those without, and it was not chance."""
        if min(len(self._with), len(self._without)) < _ENOUGH:
            return False
        error = math.sqrt(sum(variance(times) / len(times) for times in (self._with, self._without)))
        return fmean(self._with) - fmean(self._without) > max(_SURE * error, 0.0)

    def choose(self) -> bool:
        """Whether to begin calls ahead in this turn, in which some are expected."""
        self._chances += 1
        if self._chances % _AGAIN == 0:
            self._with.clear()
        return self._chances % _CONTROL != 0 and not self.off

    def took(self, ahead: bool, nanoseconds: int) -> None:
        """The calls of a turn in which some were expected took so long, with calls begun ahead or without."""
        (self._with if ahead else self._without).append(nanoseconds)

    def worth_trying(self, name: str, counts: Counts) -> bool:
        """Whether the pattern of this name is to be acted upon: it pays, or it may have begun to."""
        if pays(counts):
            return True
        skipped = self._skipped[name] = (self._skipped.pop(name, 0) + 1) % _RETRY
        if len(self._skipped) > _MOST_SKIPPED:
            del self._skipped[next(iter(self._skipped))]
        return not skipped
