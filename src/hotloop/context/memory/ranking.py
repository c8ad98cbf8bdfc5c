"""Which facts fit a request best: by the terms that they share, by what they mean, and by both."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence, Set
from itertools import chain
from typing import Any, NamedTuple

# The usual constants of Okapi BM25: S. Robertson, H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and
# Beyond", 2009. A fact hardly says a term twice, so that a term counts once.
_K1, _B = 1.2, 0.75
_RANK = 60  # G. Cormack, C. Clarke, S. Büttcher, "Reciprocal Rank Fusion outperforms Condorcet ...", SIGIR 2009


class Search(NamedTuple):
    """What is asked for: facts that a user's request in a session may see, at most `limit` of them.

    `terms` are those of the request, `direction` is that of its meaning, None if it is not to count: it is compared to
    those that are of the same `maker`.
    """

    user: str
    session: str
    terms: Set[str]
    limit: int
    maker: str = ""
    direction: Any = None


class Match(NamedTuple):
    """A fact that has some of the terms that were asked for: which, and of how many that it has in all."""

    key: Any
    shared: Collection[str]
    length: int


class Candidates(NamedTuple):
    """Of the facts that a request may see, wherever they are kept, those that may fit it; a key stands for a fact.

    There are so many `facts` in all, with so many `terms`. `sharing` are those that have terms of the request, in the
    order in which they were first told, the newest first; `nearest` those nearest in meaning, the nearest first. Where
    fewer share a term than are asked for, `newest` are those that were told last, the newest first.
    """

    facts: int
    terms: int
    sharing: Sequence[Match]
    nearest: Sequence[Any]
    newest: Sequence[Any]


def best(candidates: Candidates, limit: int) -> list[Any]:
    """The keys of the facts that fit best, the best first; where fewer fit than `limit`, the newest of the others."""
    ranking = _by_terms(candidates)[:limit]
    if candidates.nearest:
        ranking = _fused([ranking, candidates.nearest])
    return list(dict.fromkeys([*ranking, *candidates.newest]))[:limit]


def _by_terms(candidates: Candidates) -> list[Any]:
    """The keys of those that share terms, by BM25."""
    facts, terms, sharing = candidates[:3]
    spread = Counter(chain.from_iterable(match.shared for match in sharing))
    worth = {term: math.log1p((facts - having + 0.5) / (having + 0.5)) for term, having in spread.items()}
    shortest, longer = 1 + _K1 * (1 - _B), _K1 * _B * facts / max(terms, 1)
    scores = {
        key: math.fsum(map(worth.__getitem__, shared)) / (shortest + longer * length) for key, shared, length in sharing
    }
    return sorted(scores, key=scores.__getitem__, reverse=True)


def _fused(rankings: Iterable[Sequence[Any]]) -> list[Any]:
    """One ranking of several, by reciprocal rank fusion: who is high in any of them is high in it."""
    scores: dict[Any, float] = {}
    for ranking in rankings:
        for place, key in enumerate(ranking, 1):
            scores[key] = scores.get(key, 0.0) + 1 / (_RANK + place)
    return sorted(scores, key=scores.__getitem__, reverse=True)
