"""Which tools a request is about: a plain text match, so that a large set of tools costs few tokens.

The request is compared with each tool's name and description by the words (English) and the pairs of characters
(Chinese) that they share, rare ones counting more. No model, no dependency, and the same answer every time.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from hotloop.context.terms import terms


class ToolText(NamedTuple):
    """What is known of a tool in words; a plain (name, description) tuple will do."""

    name: str
    description: str


Texts = Sequence[tuple[str, str]]
Scores = dict[str, float]

_NAME_WEIGHT = 2.0  # a word of the name says more than one of the description
_ENOUGH = 0.3  # of the best tool's score: what another tool must add to be meant as well
_LEAST = 0.4  # of the score of one word that only one tool has: less is chance

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def shortlist(request: str, tools: Texts, limit: int) -> list[int]:
    """The places in `tools` of the `limit` tools that match the request best, best first.

    Tools that match equally well, or not at all, keep their order; there are always `limit` places if there are as
    many tools.
    """
    scores = [sum(found.values()) for found in _scores(request, tools)]
    return sorted(range(len(tools)), key=lambda place: (-scores[place], place))[: max(0, limit)]


def strong_matches(request: str, tools: Texts) -> list[int]:
    """The places in `tools` of those that the request is clearly about, in the tools' order; often none.

    The best match comes first; each further one must explain words of the request that no earlier one explained, so
    that a word which many tools share does not bring them all in.
    """
    scores = _scores(request, tools)
    least = _LEAST * math.log1p(len(tools))
    best = 0.0
    chosen: list[int] = []
    explained: set[str] = set()
    while True:
        added = [sum(score for term, score in found.items() if term not in explained) for found in scores]
        place = max(range(len(tools)), key=lambda index: (added[index], -index), default=-1)
        best = best or (added[place] if tools else 0.0)
        if place < 0 or added[place] < max(least, _ENOUGH * best, 1e-9):
            return sorted(chosen)
        chosen.append(place)
        explained |= scores[place].keys()


def _scores(request: str, tools: Texts) -> list[Scores]:
    """For each tool, the terms that it shares with the request and what each is worth."""
    asked = frozenset(terms(request))
    weights = [_weights(name, description) for name, description in tools]
    spread = Counter(term for each in weights for term in each)
    return [
        {term: each[term] * math.log1p(len(tools) / spread[term]) for term in asked & each.keys()} for each in weights
    ]


@lru_cache(maxsize=4096)
def _weights(name: str, description: str) -> Scores:
    described = dict.fromkeys(terms(description), 1.0)
    return described | dict.fromkeys(terms(_CAMEL.sub(" ", name)), _NAME_WEIGHT)
