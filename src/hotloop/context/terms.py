"""The terms of a text, by which texts are matched without a model: English stems, numbers, pairs of Chinese characters.

Words that say nothing of what a text is about are no terms. Words of other languages are terms as they are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, pairwise

_CHARACTERS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]+")  # Japanese syllables among them
_PIECE = re.compile(rf"{_CHARACTERS.pattern}|[^\W\d_\u3040-\u30ff\u3400-\u9fff]+|\d+")
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


def terms(text: str) -> Iterator[str]:
    """The terms of a text, in its order, each as often as it is said."""
    for piece in _PIECE.findall(text.lower()):
        if _CHARACTERS.match(piece):
            yield from (pair for pair in map("".join, pairwise(piece)) if pair not in _STOP)
        elif piece not in _STOP:
            yield _stem(piece)


def characters(text: str) -> Iterator[str]:
    """The Chinese characters of a text, each by itself."""
    return chain.from_iterable(_CHARACTERS.findall(text))


def _stem(word: str) -> str:
    """`word` without its ending, if enough of it is left: "shipping", "shipped" and "shipment" become "ship"."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            stem = word[: -len(ending)]
            return stem[:-1] if len(stem) > 3 and stem[-1] == stem[-2] else stem
    return word
