"""Which tools a request is about: a plain text match, so that a large set of tools costs few tokens.

The request is compared with each tool's name and description by the words (English) and the pairs of characters
(Chinese) that they share, rare ones counting more. No model, no dependency, and the same answer every time.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple


class ToolText(NamedTuple):
    """What is known of a tool in words; a plain (name, description) tuple will do."""

    name: str
    description: str


Texts = Sequence[tuple[str, str]]
Scores = dict[str, float]

_NAME_WEIGHT = 2.0  # a word of the name says more than one of the description
_ENOUGH = 0.3  # of the best tool's score: what another tool must add to be meant as well
_LEAST = 0.4  # of the score of one word that only one tool has: less is chance

_PIECE = re.compile(r"[a-z\u00df-\u00ff]+|[\u3400-\u9fff]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ENDINGS = ("ations", "ation", "ings", "ing", "ments", "ment", "ies", "ers", "ed", "er", "es", "al", "s", "y", "e")
_FILLERS = (
    "a about after again all also am an and any are as at be been but by can check could current currently did "
    "do does fetch find for from get give has have hello hey hi how i if in into is it its just know let like "
    "list look make many me much my need no not now of on one or our out please query returns search see should "
    "show so some tell thanks that the their them then there they this to up us use want was we well were what "
    "which who will with would you your"
)
_FILLER_PAIRS = (
    "查询 查看 一下 帮我 我想 想要 请问 请帮 同时 顺便 我的 你的 什么 怎么 怎样 如何 可以 能不 不能 知道 告诉 给我 "
    "多少 这个 那个 一个 是不 是否 有没 没有 现在 然后 以及 还有 谢谢 你好 信息 需要 获取"
)
_STOP = frozenset([*_FILLERS.split(), *_FILLER_PAIRS.split()])


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
    asked = frozenset(_terms(request))
    weights = [_weights(name, description) for name, description in tools]
    spread = Counter(term for each in weights for term in each)
    return [
        {term: each[term] * math.log1p(len(tools) / spread[term]) for term in asked & each.keys()} for each in weights
    ]


@lru_cache(maxsize=4096)
def _weights(name: str, description: str) -> Scores:
    described = dict.fromkeys(_terms(description), 1.0)
    return described | dict.fromkeys(_terms(_CAMEL.sub(" ", name)), _NAME_WEIGHT)


def _terms(text: str) -> Iterator[str]:
    for piece in _PIECE.findall(text.lower()):
        if piece[0] >= "\u3400":
            yield from (pair for pair in map("".join, pairwise(piece)) if pair not in _STOP)
        elif piece not in _STOP:
            yield _stem(piece)


def _stem(word: str) -> str:
    """`word` without its ending, if enough of it is left: "shipping", "shipped" and "shipment" become "ship"."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            stem = word[: -len(ending)]
            return stem[:-1] if len(stem) > 3 and stem[-1] == stem[-2] else stem
    return word
