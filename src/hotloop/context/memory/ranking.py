"""Which facts fit a request best: by the terms that they share, by what they mean, and by both."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence, Set
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeVar

from hotloop.context.memory.fact import Fact

K = TypeVar("K", bound=Hashable)

# The usual constants of Okapi BM25: S. Robertson, H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and
# Beyond", 2009. A fact hardly says a term twice, so that a term counts once.
_K1, _B = 1.2, 0.75
_RANK = 60  # G. Cormack, C. Clarke, S. Büttcher, "Reciprocal Rank Fusion outperforms Condorcet ...", SIGIR 2009


class Match(NamedTuple):
    """A fact that has some of the terms that were asked for: which, and of how many that it has in all."""

    key: Any
    shared: Collection[str]
    length: int


class Facts(Protocol[K]):
    """The facts that one request may see, wherever they are kept. A key stands for one of them."""

    def size(self) -> tuple[int, int]:
        """How many facts there are, and how many terms in them together."""

    def sharing(self, asked: Set[str]) -> Sequence[Match]:
        """Those that have some of these terms, in the order in which they were first told, the newest first."""

    def nearest(self, direction: Any, limit: int) -> list[K]:
        """Those whose direction is nearest to this one, the nearest first."""

    def newest(self, limit: int) -> list[K]:
        """Those that were told last, the newest first."""

    def read(self, keys: Sequence[K]) -> list[Fact]:
        """The facts that these keys stand for."""


def best(facts: Facts[K], asked: Set[str], direction: Any, limit: int) -> list[Fact]:
    """The facts that fit a request best, the best first; where fewer fit than `limit`, the newest of the others too.

    `asked` are the terms of the request, `direction` is that of its meaning, None if it is not to count.
    """
    ranking = by_terms(facts.sharing(asked), *facts.size())[:limit]
    if direction is not None:
        ranking = fused([ranking, facts.nearest(direction, limit)])
    if len(ranking) < limit:
        ranking = list(dict.fromkeys([*ranking, *facts.newest(limit)]))
    return facts.read(ranking[:limit])


def by_terms(found: Sequence[Match], count: int, terms: int) -> list[Any]:
    """The keys of what was found, by BM25, among `count` facts with so many `terms` in all."""
    spread = Counter(chain.from_iterable(match.shared for match in found))
    worth = {term: math.log1p((count - facts + 0.5) / (facts + 0.5)) for term, facts in spread.items()}
    scores = {}
    for key, shared, length in found:
        longer = _K1 * (1 - _B + _B * length * count / terms)
        scores[key] = math.fsum(map(worth.__getitem__, shared)) / (1 + longer)
    return sorted(scores, key=scores.__getitem__, reverse=True)


def fused(rankings: Iterable[Sequence[K]]) -> list[K]:
    """One ranking of several, by reciprocal rank fusion: who is high in any of them is high in it."""
    scores: dict[K, float] = {}
    for ranking in rankings:
        for place, key in enumerate(ranking, 1):
            scores[key] = scores.get(key, 0.0) + 1 / (_RANK + place)
    return sorted(scores, key=scores.__getitem__, reverse=True)
