"""Results that are too long for a model: what it sees of them, and how it gets the rest.

Where something is missing stands a mark, "20 of 1,000 items shown; path=$.orders start=20": `part` goes on with this
path and start. In JSON a list ends with {"…": mark}, an object with "…": mark and text with "…[mark]", so that it stays
JSON of the same shape; other text ends with a line "[cut: mark]".
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import msgspec

from hotloop.errors import ToolError
from hotloop.models.sizes import PER_TOKEN, text_size
from hotloop.tools.cutting.boundaries import last_boundary
from hotloop.tools.cutting.shorten import Spot, fitting, shorten, to_json
from hotloop.tools.paths import parse_path, places, write_path

_TINY = 50 * PER_TOKEN  # a mark comes on top of less room

# Numbers stay as they are written: Python's floats would lose digits.
decode = msgspec.json.Decoder(float_hook=lambda number: msgspec.Raw(number.encode())).decode


def cut(content: str, tokens: int, rest: str = "") -> str:
    """The content in at most so many tokens, as they are estimated; `rest` is a sentence on how to get what is missing.

    Objects and arrays stay JSON: fields and items are kept from the front, long text inside is shortened, and numbers,
    names and words are whole or missing. Other text ends after a paragraph, line, sentence or word.
    """
    room = _room(tokens)
    if text_size(content) <= room:
        return content
    value = value_of(content)
    try:
        return _show(Spot(value, "$", rest=rest), room)
    except RecursionError:
        return _show(Spot(content, "$", rest=rest), room)


def part(content: str, path: str, start: int, tokens: int) -> str:
    """What the content has at the path, from an item, field or character on, in at most so many tokens.

    Text at the path comes as text. It is more than that only if a single name or number is.
    Raises ToolError, with what is there, if path and start lead nowhere.
    """
    way = parse_path(path)
    found = list(places(value_of(content), way, "$"))
    names = [name for name, _ in found] if None in way else None
    value = [inner for _, inner in found] if names is not None else found[0][1]
    if not isinstance(value, str | list | dict):
        value = to_json(value)
    spot = Spot(value, f"${write_path(way)}", start, names=names)
    if not 0 <= start < max(len(value), 1):
        raise ToolError(f"{spot.path} has {len(value):,} {spot.unit}, so that nothing starts at {start:,}.")
    return _show(spot, _room(tokens), at_least_one=True)


def value_of(content: str) -> Any:
    """The object or array that the content is, or its text."""
    try:
        value = decode(content)
    except (ValueError, RecursionError):
        return content
    return value if isinstance(value, list | dict) else content


def _room(tokens: int) -> int:
    """The most that text may have, in the unit of `text_size`, to be no more tokens."""
    return (tokens + 1) * PER_TOKEN - 1


def _show(spot: Spot, room: int, *, at_least_one: bool = False) -> str:
    if isinstance(spot.value, str):
        return _show_text(spot, room)
    text = to_json(_remaining(spot))
    if text_size(text) <= room:
        return text
    if room < _TINY:
        room += text_size(spot.mark(len(spot.value)))
    return shorten(spot, room, at_least_one=at_least_one)


def _remaining(spot: Spot) -> Any:
    if isinstance(spot.value, list):
        return spot.value[spot.start :]
    return dict(islice(spot.value.items(), spot.start, None))


def _show_text(spot: Spot, room: int) -> str:
    text: str = spot.value
    start = spot.start
    if text_size(text[start:]) <= room:
        return text[start:]
    note = text_size(_note(spot, len(text))) if room >= _TINY else 0
    stop = start + max(fitting(text, start, room - note, text_size), 1)
    end = last_boundary(text, start, stop)
    return text[start:end] + _note(spot, end)


def _note(spot: Spot, end: int) -> str:
    return f"\n[cut: {spot.mark(end)}]"
