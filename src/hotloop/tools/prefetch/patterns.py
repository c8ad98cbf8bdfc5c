"""What is learned: calls that tend to come next, where their arguments come from, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import msgspec

from hotloop.tools.prefetch.past import Past, Seen
from hotloop.tools.prefetch.provenance import Source, sources

_COMBINATIONS = 12  # of the sources of one call's arguments
_REMEMBERED = 128  # chances after which those so far count half
_TRIED = 32  # calls started after which those so far count half
_HALF_LIFE = 30 * 86_400.0  # seconds
_Z = 1.2816  # one-sided: nine such bounds in ten lie below what they bound


class Pattern(msgspec.Struct, frozen=True):
    """A call of a tool, with where each of its arguments comes from."""

    tool: str
    arguments: tuple[tuple[str, Source], ...] = ()

    def __str__(self) -> str:
        return f"{self.tool}({', '.join(f'{name} = {source}' for name, source in self.arguments)})"

    @property
    def tells(self) -> bool:
        """Whether there is a value in it that may be of one person."""
        return any(source.tells for _, source in self.arguments)

    def fill(self, past: Past) -> dict[str, Any] | None:
        """The arguments of the call that it stands for after this past; None if one cannot be found."""
        try:
            return {name: source.find(past, self.tool, name) for name, source in self.arguments}
        except LookupError:
            return None


class Counts(msgspec.Struct):
    """How a pattern did: in `chances` it could be filled in, in `hits` of these just that call was made.

    Of the calls that were `started` ahead `used` were asked for: they `won` so many milliseconds, the others `wasted`
    so many. All of it fades: with what comes after it, and with the time since `at` (Unix seconds).
    """

    chances: float = 0.0
    hits: float = 0.0
    started: float = 0.0
    used: float = 0.0
    won: float = 0.0
    wasted: float = 0.0
    at: float = 0.0

    def confidence(self, now: float) -> float:
        """The least share of its chances in which it is likely to be right: a bound that holds nine times in ten."""
        left = self._left(now)
        return wilson(self.hits * left, self.chances * left)

    def chance(self, hit: bool, now: float) -> None:
        """It could be filled in once more."""
        left = self._left(now)
        if self.chances * left >= _REMEMBERED:
            left /= 2
        self.chances = self.chances * left + 1
        self.hits = self.hits * left + hit
        self.at = max(now, self.at)

    def tried(self, used: bool, won: float, wasted: float) -> None:
        """A call of it was started before anybody asked for it."""
        left = 0.5 if self.started >= _TRIED else 1.0
        self.started = self.started * left + 1
        self.used = self.used * left + used
        self.won = self.won * left + won
        self.wasted = self.wasted * left + wasted

    def _left(self, now: float) -> float:
        """The share of what is known that time has left."""
        return float(0.5 ** (max(now - self.at, 0.0) / _HALF_LIFE))


def wilson(hits: float, chances: float) -> float:
    """The lower end of Wilson's interval for a share; 0 for no chances."""
    if not chances:
        return 0.0
    share, square = hits / chances, _Z * _Z
    middle = share + square / (2 * chances)
    spread = _Z * math.sqrt(share * (1 - share) / chances + square / (4 * chances * chances))
    return max((middle - spread) / (1 + square / chances), 0.0)


def patterns_of(call: Seen, past: Past) -> Iterator[Pattern]:
    """The patterns that this call can have been made by after this past, the likeliest first."""
    names = list(call.arguments)
    found = [sources(call.arguments[name], past, call.tool, name) for name in names]
    ranks = sorted(product(*(range(len(each)) for each in found)), key=sum)
    for rank in ranks[:_COMBINATIONS]:
        chosen = (options[place] for options, place in zip(found, rank, strict=True))
        yield Pattern(call.tool, tuple(zip(names, chosen, strict=True)))
