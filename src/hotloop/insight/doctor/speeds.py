"""How fast a service reads and writes, as its replies show it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from statistics import median
from typing import NamedTuple

from hotloop.insight.doctor.measures import Reply
from hotloop.units import NS_PER_MS

USUAL = 0.06 * NS_PER_MS
"""For a prompt token, where a service does not show its own: in the middle of published 0.015 to 0.15 ms."""
_MOST = 80  # replies that are compared, each with each
_APART = 64  # tokens between two replies that are
_LEAST = 10  # such pairs
_AGREE = 0.25  # of them may find reading less than half as slow as the one in the middle
_TELLING = 16  # tokens of a reply that tell a pace


class Speed(NamedTuple):
    """One service; times in nanoseconds, None (of `writing` 0) is unknown.

    To read a token takes `reading`, whatever comes before that `base`, and between tokens it takes `writing`, as the
    replies in `paces` tell: those with text, if there are any, for calls may be held back until they are whole.
    """

    reading: float | None
    base: float | None
    writing: float
    paces: list[Reply]

    @property
    def token(self) -> float:
        """For a token that is read, known or not."""
        return USUAL if self.reading is None else self.reading


def speeds(replies: Iterable[Reply]) -> dict[str, Speed]:
    """The speed of each service that gave these replies."""
    by_service: dict[str, list[Reply]] = {}
    for reply in replies:
        by_service.setdefault(reply.where, []).append(reply)
    return {where: _speed(some) for where, some in by_service.items()}


def _speed(replies: Sequence[Reply]) -> Speed:
    reading, base = _told_reading(replies) or _fitted(replies)
    paced = [reply for reply in replies if reply.tpot is not None and reply.out >= _TELLING]
    paces = [reply for reply in paced if not reply.acts] or paced
    writing = median(reply.tpot or 0 for reply in paces) if paces else 0.0
    return Speed(reading, base, writing, paces)


def _told_reading(replies: Sequence[Reply]) -> tuple[float | None, float | None] | None:
    """By what the service says itself of reading; None if it does not."""
    told = [(reply.told.reading, reply.read) for reply in replies if reply.told.reading is not None and reply.read]
    tokens = sum(read or 0 for _, read in told)
    return (sum(reading or 0 for reading, _ in told) / tokens, None) if tokens else None


def _fitted(replies: Sequence[Reply]) -> tuple[float | None, float | None]:
    """By the slope in the middle of those between any two of them (Theil and Sen), which few odd ones do not bend."""
    telling = [reply for reply in replies if reply.read is not None and _tells_wait(reply)]
    sure = [reply for reply in telling if reply.cached is not None or reply.known] or telling
    if not sure:
        return None, None
    sample = Random(0).sample(sure, _MOST) if len(sure) > _MOST else sure
    some = sorted((reply.read or 0, _wait(reply)) for reply in sample)
    pairs = [(one, other) for place, one in enumerate(some) for other in some[place:] if other[0] - one[0] >= _APART]
    slopes = sorted((late - early) / (long - short) for (short, early), (long, late) in pairs)
    reading = median(slopes) if len(slopes) >= _LEAST else 0.0
    known = reading > 0 and slopes[int(_AGREE * len(slopes))] >= reading / 2
    token = reading if known else USUAL
    base = max(median(wait - token * tokens for tokens, wait in some), 0.0)
    return (reading if known else None), base


def _tells_wait(reply: Reply) -> bool:
    return reply.told.first is not None or not reply.buffered


def _wait(reply: Reply) -> int:
    """From when its turn came to the first token, by the service's own clock if it tells."""
    first = reply.told.first
    return reply.waited if first is None else first - (reply.told.queue or 0)
