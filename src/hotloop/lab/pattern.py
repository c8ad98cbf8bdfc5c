"""A short text that matches a regular expression."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from re import _constants as op  # type: ignore[attr-defined]  # the parser behind `re` has no public name
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

_CHARACTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-./:@+ !#$%&'()*,;<=>?[]^`{|}~\"\\\t\n"
_MOST_REPEATS = 256
_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    op.CATEGORY_DIGIT: str.isdigit,
    op.CATEGORY_NOT_DIGIT: lambda each: not each.isdigit(),
    op.CATEGORY_SPACE: str.isspace,
    op.CATEGORY_NOT_SPACE: lambda each: not each.isspace(),
    op.CATEGORY_WORD: lambda each: each.isalnum() or each == "_",
    op.CATEGORY_NOT_WORD: lambda each: not (each.isalnum() or each == "_"),
}


def matching_text(pattern: str, shortest: int = 0, longest: int | None = None) -> str | None:
    """A text between `shortest` and `longest` characters in which `pattern` is found; None when none was found.

    What can repeat repeats as seldom as these bounds allow. Lookarounds are not looked at, only checked in the end.
    Raises re.error for what is no regular expression.
    """
    tree = parser.parse(pattern)
    for repeats in range(min(max(shortest, 1), _MOST_REPEATS) + 1):
        text = _text(tree, repeats, {}).ljust(shortest, "0")
        if (longest is None or len(text) <= longest) and re.search(pattern, text):
            return text
    return None


def _text(tree: Iterable[tuple[Any, Any]], repeats: int, groups: dict[int, str]) -> str:
    return "".join(_piece(code, value, repeats, groups) for code, value in tree)


def _piece(code: Any, value: Any, repeats: int, groups: dict[int, str]) -> str:
    """The text of one node; `repeats` is how often an open repetition runs beyond its minimum."""
    if code is op.LITERAL:
        return chr(value)
    if code is op.ANY:
        return _CHARACTERS[0]
    if code is op.NOT_LITERAL:
        return next(each for each in _CHARACTERS if ord(each) != value)
    if code is op.IN:
        return _member(value)
    if code is op.BRANCH:
        return _text(value[1][0], repeats, groups)
    if code is op.GROUPREF:
        return groups.get(value, "")
    if code is op.SUBPATTERN:
        number, _, _, inside = value
        groups[number] = _text(inside, repeats, groups)
        return groups[number]
    if code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        least, most, inside = value
        return "".join(_text(inside, repeats, groups) for _ in range(min(least + repeats, most)))
    if code is op.ATOMIC_GROUP:
        return _text(value, repeats, groups)
    return ""  # anchors and lookarounds have no text


def _member(items: list[tuple[Any, Any]]) -> str:
    """A character of the set `items`; "" when it has none that we know."""
    named = [chr(value if code is op.LITERAL else value[0]) for code, value in items if code in (op.LITERAL, op.RANGE)]
    wanted = items[0][0] is not op.NEGATE
    return next((each for each in [*named, *_CHARACTERS] if _contains(items, each) is wanted), "")


def _contains(items: list[tuple[Any, Any]], character: str) -> bool:
    return any(_fits(code, value, character) for code, value in items)


def _fits(code: Any, value: Any, character: str) -> bool:
    if code is op.CATEGORY:
        return _CATEGORIES[value](character)
    low, high = value if code is op.RANGE else (value, value)
    return code is not op.NEGATE and bool(low <= ord(character) <= high)
