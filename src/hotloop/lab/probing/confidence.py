"""How far a fitted profile is to be believed, in words: how well it fits, and how far the measurements looked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from hotloop.trace.stats import percentile

_GOOD, _MEDIUM = 0.1, 0.25  # relative errors
_FAR, _MANY = 50, 30  # replies at once and requests in a row, below which no profile is good


class Deviation(msgspec.Struct, frozen=True):
    """How far predictions are from `of` measurements, relative to these."""

    median: float
    p95: float
    of: int


class Looked(msgspec.Struct, frozen=True):
    """How far the measurements looked: `in_a_row` requests that came alone, and at most `at_once` that came together.

    `kind_told` is whether they can tell if replies slow each other down; `limit` whether they met the service's slots.
    """

    in_a_row: int
    at_once: int
    kind_told: bool
    limit: bool = False

    @property
    def far(self) -> bool:
        """Whether that is enough for a good profile."""
        return self.in_a_row >= _MANY and self.kind_told and (self.limit or self.at_once >= _FAR)


def deviation(pairs: Iterable[tuple[float, float]]) -> Deviation | None:
    """How far what was predicted is from what was measured; None if nothing was."""
    apart = [abs(predicted - measured) / measured for predicted, measured in pairs if measured > 0]
    return Deviation(percentile(apart, 50), percentile(apart, 95), len(apart)) if apart else None


def confidence(deviations: Mapping[str, Deviation], looked: Looked) -> str:
    """In a word, how far was looked, and what the word rests on."""
    worst = max(each.median for each in deviations.values())
    word = "low" if worst > _MEDIUM else "good" if worst <= _GOOD and looked.far else "medium"
    seen = f"seen up to {looked.at_once} at once" if looked.at_once > 1 else "seen one at a time only"
    doubt = "" if looked.kind_told else "whether replies slow each other down cannot be told; "
    told = (f"{name} {_percent(each.median)} / {_percent(each.p95)}" for name, each in deviations.items())
    return f"{word}, {seen}; {doubt}median error / p95 of it: {', '.join(told)}"


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"
