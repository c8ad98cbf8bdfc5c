"""What may have changed a text that was to stay the same, judged by how it reads before and after."""

from __future__ import annotations

import re
from typing import Literal

Cause = Literal[
    "clock",
    "id",
    "address",
    "counter",
    "order",
    "whitespace",
    "text",
    "tool order",
    "tool set",
    "tool",
    "key order",
    "edited",
    "trimmed",
    "inserted",
    "request",
    "model",
    "option",
    "sampling",
]

_NEAR = 48  # characters around a difference in which a date or an id that it is part of begins and ends
_MONTH = (
    r"\b(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)\b\.?"
)
_DAY = r"(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?"
_CLOCK = re.compile(
    r"\d{4}[-/.]\d\d?[-/.]\d\d?(?:[T ,]+\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
    r"|\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?[AaPp]\.?[Mm])?"
    r"|\d\d?[./]\d\d?[./](?:\d{4}|\d\d)\b"
    rf"|{_MONTH} \d\d?(?:st|nd|rd|th)?(?:,? \d{{4}})?|\d\d?\.? {_MONTH}(?: \d{{4}})?|\b{_DAY}\b"
    r"|\d{4} ?年(?: ?\d\d? ?月(?: ?\d\d? ?[日号])?)?|\d\d? ?月 ?\d\d? ?[日号]|(?:星期|周)[一二三四五六日天]"
    r"|\d\d? ?[点时](?: ?\d\d? ?分)?"
    r"|\b1[5-9]\d{8}(?:\.\d+|\d{3}(?:\d{3}){0,2})?\b",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}", re.IGNORECASE)
_ID = re.compile(r"[\w-]*\d[\w-]*", re.ASCII)
_LEAST_ID = 8  # characters of an id that is none of a counter
_COUNTER = re.compile(r"\d+")
_ITEMS = re.compile(r"[\s,;|'\"\[\](){}]+")


def cause_of(before: str, after: str, at: int) -> Cause:
    """Why two texts differ from character `at` on, as far as that can be seen."""
    if before.split() == after.split():
        return "whitespace"
    if _reordered(before, after) or _reordered(_list_at(before, at), _list_at(after, at)):
        return "order"
    if _both(_CLOCK, before, after, at):
        return "clock"
    if _both(_ADDRESS, before, after, at):
        return "address"
    if _both(_COUNTER, before, after, at) and not _is_id(before, after, at):
        return "counter"
    return "id" if _is_id(before, after, at) else "text"


def _both(pattern: re.Pattern[str], before: str, after: str, at: int) -> bool:
    return bool(_around(pattern, before, at) and _around(pattern, after, at))


def _around(pattern: re.Pattern[str], text: str, at: int) -> str:
    """What fits the pattern and has the character at `at` in it, or ends there."""
    for found in pattern.finditer(text, max(0, at - _NEAR), at + _NEAR):
        if found.start() <= at <= found.end():
            return found[0]
    return ""


def _is_id(before: str, after: str, at: int) -> bool:
    """Whether both have a word of letters and digits there that nobody would write twice."""
    words = [_around(_ID, text, at) for text in (before, after)]
    return all(len(word) >= _LEAST_ID and not word.isdecimal() for word in words) or all(
        len(word) > 2 * _LEAST_ID for word in words
    )


def _list_at(text: str, at: int) -> str:
    """What is in brackets around the character at `at`."""
    start = max(text.rfind(mark, 0, at) for mark in "{[(")
    ends = [end for mark in "}])" if (end := text.find(mark, at)) >= 0]
    return text[start + 1 : min(ends)] if start >= 0 and ends else ""


def _reordered(before: str, after: str) -> bool:
    """Whether they are the same list with its items in another order."""
    start, end = _common_ends(before, after)
    middles = [text[start : len(text) - end] for text in (before, after)]
    items = [sorted(filter(None, _ITEMS.split(middle))) for middle in middles]
    return items[0] == items[1] and len(items[0]) > 1 and any(mark in middles[0] for mark in ",;|\n")


def _common_ends(one: str, other: str) -> tuple[int, int]:
    """How many characters, in whole items, two texts have in common at their start and at their end."""
    least = min(len(one), len(other))
    start = next((at for at in range(least) if one[at] != other[at]), least)
    end = next((at for at in range(least - start) if one[-1 - at] != other[-1 - at]), least - start)
    while start and not _ITEMS.fullmatch(one[start - 1]):
        start -= 1
    while end and not _ITEMS.fullmatch(one[len(one) - end]):
        end -= 1
    return start, end
