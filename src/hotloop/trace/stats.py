"""Percentiles of raw values."""

from __future__ import annotations

import math
from collections.abc import Sequence


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile: the smallest value that at least `percent` % of the values do not exceed.

    It always is one of the values; infinite ones stand for what never ended. ValueError when there are none.
    """
    if not values or not 0 < percent <= 100:
        raise ValueError(f"no percentile {percent} of {len(values)} values")
    rank = math.ceil(round(percent * len(values) / 100, 9))  # 99.9 % of 1,000 is 999, not 999.0000000000001
    return sorted(values)[rank - 1]
