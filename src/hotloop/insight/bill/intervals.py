"""How sure a figure is: the interval in which the true value lies, at a level such as 0.95.

Percentiles have the intervals of order statistics, which hold for any distribution and say so when there are too few
values; where one side is not known, it is infinite. Nothing is drawn at random: the same runs have the same intervals.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, hypot, inf, lgamma, log, log1p, sqrt
from statistics import NormalDist
from typing import NamedTuple

from hotloop.insight.estimate import Estimate

_NORMAL = NormalDist()
_FAR = 10  # standard deviations, beyond which a binomial is nothing
_LEAST = 5  # values that a mean needs to have an interval


class Interval(NamedTuple):
    """From `low` to `high`."""

    low: float
    high: float


@lru_cache(maxsize=512)
def ranks(values: int, share: float, level: float) -> tuple[int, int]:
    """Between which of so many sorted values (the first is 1) the quantile of this share lies.

    0 stands for below them all, `values` + 1 for above.
    """
    tail, below = (1 - level) / 2, 0.0
    first = max(0, int(values * share - _FAR * sqrt(values * share * (1 - share))))
    at = _log_binomial(first, values, share)
    low, odds = 0, log(share) - log1p(-share)
    for rank in range(first, values):  # `below` becomes the chance that at most `rank` values are below the quantile
        below += exp(at)
        at += log((values - rank) / (rank + 1)) + odds
        if below <= tail:
            low = rank + 1
        if below >= 1 - tail:
            return low, rank + 1
    return low, values + 1


def mean_interval(values: int, mean: float, deviation: float, level: float) -> Interval:
    """Where the true mean lies, from the mean and the standard deviation of so many values."""
    if values < _LEAST:
        return Interval(-inf, inf)
    half = _student(values - 1, (1 + level) / 2) * deviation / sqrt(values)
    return Interval(mean - half, mean + half)


def share_interval(hits: float, values: int, level: float) -> Interval:
    """Where the true share lies if so many of the values are hits (Wilson's interval)."""
    if not values:
        return Interval(0.0, 1.0)
    z = _NORMAL.inv_cdf((1 + level) / 2)
    share, weight = hits / values, z * z / values
    middle = (share + weight / 2) / (1 + weight)
    half = z * sqrt(share * (1 - share) / values + weight / values / 4) / (1 + weight)
    return Interval(max(middle - half, 0.0), min(middle + half, 1.0))


def difference(before: Estimate, after: Estimate) -> Estimate:
    """What came of two independent estimates, with the interval that follows from theirs (Zou and Donner, 2008)."""
    change = after.value - before.value
    below = hypot(after.value - after.low, before.high - before.value)
    above = hypot(after.high - after.value, before.value - before.low)
    return Estimate(change, change - below, change + above)


def level_of_each(level: float, estimates: int) -> float:
    """The level of each of so many intervals, for all of them to hold together at this one (Bonferroni's)."""
    return 1 - (1 - level) / max(estimates, 1)


def _log_binomial(hits: int, values: int, share: float) -> float:
    ways = lgamma(values + 1) - lgamma(hits + 1) - lgamma(values - hits + 1)
    return ways + hits * log(share) + (values - hits) * log1p(-share)


def _student(freedom: int, share: float) -> float:
    """A quantile of Student's t, from that of the normal distribution (Cornish and Fisher's expansion)."""
    z = _NORMAL.inv_cdf(share)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3
