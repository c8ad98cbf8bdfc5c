"""How fast a service reads and writes, as its replies show it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

from hotloop.insight.doctor.measures import Reply
from hotloop.units import NS_PER_MS

USUAL = 0.06 * NS_PER_MS
"""For a prompt token, where a service does not show its own: in the middle of published 0.015 to 0.15 ms."""
_GROUPS, _ALIKE = 8, 4  # of replies to prompts with about as many new tokens; how many there are in one at least
_APART = 32  # tokens between two of them that are compared
_LEAST = 3  # such pairs, of which a quarter may find reading less than half as slow as the one in the middle
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
    """By when the first token came, for as many new tokens as there were."""
    telling = [reply for reply in replies if reply.read is not None and _wait(reply) is not None]
    sure = [reply for reply in telling if reply.cached is not None or reply.known] or telling
    if not sure:
        return None, None
    seen = sorted((reply.read or 0, _wait(reply) or 0) for reply in sure)
    reading = _slope(seen)
    token = USUAL if reading is None else reading
    return reading, max(median(wait - token * tokens for tokens, wait in seen), 0.0)


def _slope(seen: Sequence[tuple[int, int]]) -> float | None:
    """What a token adds, by the replies that waited for nothing else: of as many with like prompts the soonest.

    It is the middle one of the slopes between any two of these (Theil and Sen), if they agree; but no prompt can have
    taken longer to be read than its first token was waited for.
    """
    size = max(len(seen) // _GROUPS, _ALIKE)
    groups = [seen[place : place + size] for place in range(0, len(seen) - size + 1, size)]
    soonest = [min(group, key=lambda point: (point[1], point[0])) for group in groups]
    pairs = [(one, other) for place, one in enumerate(soonest) for other in soonest[place:]]
    slopes = sorted((late - early) / (long - short) for (short, early), (long, late) in pairs if long - short >= _APART)
    if len(slopes) < _LEAST:
        return None
    reading = min(median(slopes), *(wait / tokens for tokens, wait in soonest if tokens))
    return reading if reading > 0 and slopes[len(slopes) // 4] >= reading / 2 else None


def _wait(reply: Reply) -> int | None:
    """From when its turn came to the first token, by the service's own clock if it tells."""
    first = reply.told.first
    return reply.waited if first is None else first - (reply.told.queue or 0)
