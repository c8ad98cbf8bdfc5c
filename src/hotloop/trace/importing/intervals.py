"""Stretches of time, as pairs of start and end: taken together, and what they leave of another."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import islice
from operator import itemgetter

Interval = tuple[int, int]


def together(intervals: Iterable[Interval]) -> list[Interval]:
    """The times that any of these has, which do not overlap; they are in the order of their starts."""
    times: list[Interval] = []
    for start, end in intervals:
        if times and start <= times[-1][1]:
            times[-1] = times[-1][0], max(times[-1][1], end)
        else:
            times.append((start, end))
    return times


def left_by(taken: Sequence[Interval], start: int, end: int) -> list[Interval]:
    """What these leave of the time between two moments; they are in their order and do not overlap."""
    left = []
    for begun, ended in islice(taken, bisect_left(taken, start, key=itemgetter(1)), None):
        if begun >= end:
            break
        if begun > start:
            left.append((start, begun))
        start = max(start, ended)
    if end > start:
        left.append((start, end))
    return left


def is_free(taken: Sequence[Interval], start: int, end: int) -> bool:
    """Whether none of these, in their order and without overlaps, has any of the time between two moments."""
    place = bisect_left(taken, (start, end))
    before, after = taken[place - 1 : place] if place else [], taken[place : place + 1]
    return all(ended <= start for _, ended in before) and all(begun >= end for begun, _ in after)
