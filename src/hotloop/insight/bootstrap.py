"""How sure a figure of some runs is: the same figure of runs drawn from them again and again."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec

from hotloop.insight.estimate import Estimate
from hotloop.trace.stats import percentile_in_order

RESAMPLES = 200
"""How often runs are drawn."""

_TAIL = 0.05  # of the draws, on either side of the interval: 90 % are in it


class Figures(msgspec.Struct, frozen=True):
    """The middle of some times, their 95th percentile, and their mean; each with where it is in 90 % of the draws."""

    p50: Estimate
    p95: Estimate
    mean: Estimate


class Compared(msgspec.Struct, frozen=True):
    """Times before and after a change, and what it saves."""

    before: Figures
    after: Figures
    saved: Figures


_Three = tuple[float, float, float]


def compare(before: Sequence[float], after: Sequence[Sequence[float]]) -> Compared:
    """Times of runs before a change and after it, where each run may have come out in several ways.

    A run is drawn with all that came of it, so that what it saves is that of the same runs.
    """
    count = len(before)
    draw = Random(0)
    draws: list[tuple[_Three, _Three]] = []
    for _ in range(RESAMPLES):
        chosen = draw.choices(range(count), k=count)
        draws.append(_both(before, after, chosen))
    value = _both(before, after, range(count))
    befores, afters = [each[0] for each in draws], [each[1] for each in draws]
    saved = [_minus(*each) for each in draws]
    return Compared(_figures(value[0], befores), _figures(value[1], afters), _figures(_minus(*value), saved))


def _both(before: Sequence[float], after: Sequence[Sequence[float]], chosen: Sequence[int]) -> tuple[_Three, _Three]:
    return _three([before[place] for place in chosen]), _three([time for place in chosen for time in after[place]])


def _three(times: list[float]) -> _Three:
    times.sort()
    return percentile_in_order(times, 50), percentile_in_order(times, 95), sum(times) / len(times)


def _minus(before: _Three, after: _Three) -> _Three:
    return before[0] - after[0], before[1] - after[1], before[2] - after[2]


def _figures(value: _Three, draws: Sequence[_Three]) -> Figures:
    return Figures(*(_estimate(value[place], [each[place] for each in draws]) for place in range(3)))


def _estimate(value: float, draws: list[float]) -> Estimate:
    draws.sort()
    tail = int(len(draws) * _TAIL)
    return Estimate(*(round(each, 3) for each in (value, draws[tail], draws[-tail - 1])))
