"""JSON values in less room: what is kept, what is shortened, and the marks that say what is missing.

Room is in the unit of `text_size`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from hotloop.models.sizes import PER_TOKEN, most_characters, text_size
from hotloop.tools.cutting.boundaries import last_boundary
from hotloop.tools.paths import write_path

SIGN = "…"
_MARK = 10 * PER_TOKEN  # no mark is smaller
_COMMA = text_size(",")
_DEEP = 16  # levels that are looked into; further down all is whole or missing
_UNIT: dict[type, str] = {str: "characters", list: "items", dict: "fields"}
# Of the room. A child that needs no more than that is kept whole rather than one more child shown in part.
_SHARE: dict[type, int] = {list: 4, dict: 16}


class Spot(NamedTuple):
    """A list, object or text in a value, from an item, field or character on.

    `path` is how a mark names it, `names` its items' paths if those are no positions in it, and `rest` a sentence that
    its mark ends with.
    """

    value: Any
    path: str
    start: int = 0
    rest: str = ""
    names: Sequence[str] | None = None

    @property
    def unit(self) -> str:
        """What its length is counted in."""
        return _UNIT[type(self.value)]

    def mark(self, end: int) -> str:
        """What is said where it is shown to `end`, exclusive."""
        count = f"{end - self.start:,} of {len(self.value):,} {self.unit}"
        return f"{count} shown; path={self.path} start={end}{self.rest and f'. {self.rest}'}"


class _Child(NamedTuple):
    """An item or member: `least` room shows that it is there, `extra` more all of it."""

    label: str
    spot: Spot
    text: str
    least: int
    extra: int


def to_json(value: Any) -> str:
    """A decoded value as compact JSON."""
    return msgspec.json.encode(value).decode()


def shorten(spot: Spot, room: int, *, at_least_one: bool = False, depth: int = 0) -> str:
    """JSON within the room that shows the beginning of a spot too long for it, with a mark at its end.

    It is longer only if the bare mark is, or what is at least shown of one item.
    """
    room -= _least(spot)
    if isinstance(spot.value, str):
        end = last_boundary(spot.value, 0, fitting(spot.value, 0, room, _size_inside))
        return _closed(spot, [spot.value[:end]], spot.mark(end))
    kept = _kept(spot, room, at_least_one) if depth < _DEEP else []
    level = _level([child.extra for child in kept], max(room - sum(child.least for child in kept), 0))
    members = [_member(child, level, depth) for child in kept]
    end = spot.start + len(kept)
    return _closed(spot, members, spot.mark(end) if end < len(spot.value) else spot.rest)


def _kept(spot: Spot, room: int, at_least_one: bool) -> list[_Child]:
    """The first children, as many as can be shown."""
    share = room // _SHARE[type(spot.value)]
    kept: list[_Child] = []
    for child in _children(spot):
        room -= child.least + min(child.extra, share)
        if room < 0 and (kept or not at_least_one):
            break
        kept.append(child)
    return kept


def _children(spot: Spot) -> Iterator[_Child]:
    if isinstance(spot.value, list):
        for at, item in enumerate(islice(spot.value, spot.start, None), spot.start):
            yield _child("", item, spot.names[at] if spot.names else f"{spot.path}[{at}]")
    else:
        for name, item in islice(spot.value.items(), spot.start, None):
            yield _child(f"{to_json(name)}:", item, spot.path + write_path((name,)))


def _child(label: str, value: Any, path: str) -> _Child:
    spot, text = Spot(value, path), to_json(value)
    size = least = text_size(text)
    if least > _MARK and isinstance(value, str | list | dict):
        least = min(least, _least(spot))
    return _Child(label, spot, text, text_size(label) + _COMMA + least, size - least)


def _member(child: _Child, level: int, depth: int) -> str:
    if child.extra <= level:
        return child.label + child.text
    room = text_size(child.text) - child.extra + level
    return child.label + shorten(child.spot, room, depth=depth + 1)


def _level(extras: list[int], room: int) -> int:
    """The most that each may have, so that all together have no more than the room."""
    extras = sorted(extras)
    for at, extra in enumerate(extras):
        share = room // (len(extras) - at)
        if extra > share:
            return share
        room -= extra
    return extras[-1] if extras else 0


def fitting(text: str, start: int, room: int, size: Callable[[str], int]) -> int:
    """How many characters of the text from `start` on have no more than the room, by this size of text."""
    most = min(len(text) - start, most_characters(room))
    return max(bisect_right(range(most + 1), room, key=lambda count: size(text[start : start + count])) - 1, 0)


def _size_inside(text: str) -> int:
    """The size of text as JSON, without its quotes."""
    return text_size(to_json(text)[1:-1])


def _least(spot: Spot) -> int:
    return text_size(_closed(spot, [], spot.mark(len(spot.value))))


def _closed(spot: Spot, members: list[str], mark: str) -> str:
    """What is kept of a spot, with a mark at the end, "" for none."""
    if isinstance(spot.value, str):
        return to_json(f"{''.join(members)}{SIGN}[{mark}]")
    if isinstance(spot.value, list):
        return f"[{','.join([*members, to_json({SIGN: mark})] if mark else members)}]"
    sign = SIGN
    while sign in spot.value:
        sign += SIGN
    return f"{{{','.join([*members, f'{to_json(sign)}:{to_json(mark)}'] if mark else members)}}}"
