"""Percentiles of raw values."""

from __future__ import annotations

import math
from collections.abc import Sequence


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile: the smallest value that at least `percent` % of the values do not exceed.

    It always is one of the values; infinite ones stand for what never ended. ValueError when there are none.
    """
    return percentile_in_order(sorted(values), percent)


def percentile_in_order(ordered: Sequence[float], percent: float) -> float:
    """The same of values that are in order already."""
    if not ordered or not 0 < percent <= 100:
        raise ValueError(f"no percentile {percent} of {len(ordered)} values")
    return ordered[rank_of(percent / 100, len(ordered)) - 1]


def rank_of(share: float, count: int) -> int:
    """Which of so many values in order (the first is 1) is the nearest-rank quantile of a share: 0.95 for the p95."""
    return max(math.ceil(round(share * count, 9)), 1)  # 99.9 % of 1,000 is 999, not 999.0000000000001
