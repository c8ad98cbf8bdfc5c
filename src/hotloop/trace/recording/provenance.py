"""Which earlier results the arguments of a call were taken from, told from what was said in its run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from hotloop.trace.ledger import Spoken, Words

_CHOICE = re.compile(r"[^\W\d]{0,24}")  # a word like "metric" is chosen, not looked up
_SMALL = 100  # numbers below are counts and limits
_SHORT = 3  # characters; less is found everywhere
_VALUES, _CALLS, _LONGEST = 32, 64, 256 * 1024  # looked at: of a call, before it, and characters of a result
_MANY = (list, tuple, set, frozenset)  # tuples, for they are asked for every value, and unions are slow
_NUMBER, _TEXT = (int, float), (str, int, float)
_written = json.JSONEncoder(ensure_ascii=False).encode


def sources(words: Words) -> dict[str, tuple[str, ...] | None]:
    """For each call, the ids of those earlier ones whose results have what its arguments say and the prompt does not.

    Of a step of a plan it is the id of the plan's call. None where an argument is nowhere to be found: the model may
    have made it of anything that it had read.
    """
    found: dict[str, tuple[str, ...] | None] = {}
    said: dict[str, int] = {}
    for place, spoken in enumerate(words.calls):
        values = [*_values(spoken.arguments)]
        found[spoken.call_id] = _sources(values[:_VALUES], words, said, place)
        for value in values:
            if value is not None:
                said.setdefault(value, place)
    return found


def call_of(call_id: str) -> str:
    """The call that a step of a plan belongs to; any other call itself."""
    return call_id.partition(".")[0]


def _sources(values: Sequence[str | None], words: Words, said: Mapping[str, int], place: int) -> tuple[str, ...] | None:
    """Those of the call at this place; `said` are the arguments before it, with the place of the first call of each."""
    found: dict[str, None] = {}
    for value in values:
        if value is None:
            return None
        if value not in words.prompt:
            end = said.get(value, place)  # a value that is said first, and then read, is the model's own
            where = _first_with(value, words.calls[max(0, place - _CALLS) : end])
            if where is not None:
                found[where] = None
            elif end == place:
                return None
    return tuple(found)


def _first_with(value: str, before: Sequence[Spoken]) -> str | None:
    """The call whose result has this value first."""
    written = _written(value)[1:-1]
    for spoken in before:
        text = spoken.result[:_LONGEST]
        if value in text or (written != value and written in text):
            return call_of(spoken.call_id)
    return None


def _values(arguments: str | dict[str, Any]) -> Iterator[str | None]:
    """The values that are somebody's, as text; None for one that has none."""
    left = [_decoded(arguments) if isinstance(arguments, str) else arguments]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += reversed(value.values())
        elif isinstance(value, _MANY):
            left += value
        elif not _is_anybodys(value):
            yield str(value) if isinstance(value, _TEXT) else None


def _decoded(arguments: str) -> Any:
    with suppress(msgspec.DecodeError, RecursionError):
        return msgspec.json.decode(arguments)
    return arguments


def _is_anybodys(value: Any) -> bool:
    """Whether it tells nothing of where it comes from."""
    if isinstance(value, str):
        return len(value) < _SHORT or _CHOICE.fullmatch(value) is not None
    if isinstance(value, bool) or value is None:
        return True
    return isinstance(value, _NUMBER) and abs(value) < _SMALL
