"""Which earlier results the arguments of a call were taken from, told from what was said in its run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import msgspec

from hotloop.trace.ledger import Spoken, Words

_CHOICE = re.compile(r"[^\W\d]{0,24}")  # a word like "metric" is chosen, not looked up
_SMALL = 100  # numbers below are counts and limits
_SHORT = 3  # characters; less is found everywhere
_VALUES, _CALLS, _LONGEST = 32, 64, 256 * 1024  # looked at: of a call, before it, and characters of a result


def sources(words: Words) -> dict[str, tuple[str, ...] | None]:
    """For each call, the ids of those earlier ones whose results have what its arguments say and the prompt does not.

    Of a step of a plan it is the id of the plan's call. None where an argument is nowhere to be found: the model may
    have made it of anything that it had read.
    """
    return {
        spoken.call_id: _sources(spoken, words.prompt, words.calls[max(0, place - _CALLS) : place])
        for place, spoken in enumerate(words.calls)
    }


def call_of(call_id: str) -> str:
    """The call that a step of a plan belongs to; any other call itself."""
    return call_id.partition(".")[0]


def _sources(spoken: Spoken, prompt: str, before: Sequence[Spoken]) -> tuple[str, ...] | None:
    found: dict[str, None] = {}
    for value in islice(_values(spoken.arguments), _VALUES):
        if value is not None and value in prompt:
            continue
        where = None if value is None else _first_with(value, before)
        if where is None:
            return None
        if where:
            found[where] = None
    return tuple(found)


def _first_with(value: str, before: Sequence[Spoken]) -> str | None:
    """The call whose result has this value first, "" if it had been said as an argument before; None if neither."""
    written = json.dumps(value, ensure_ascii=False)[1:-1]
    for spoken in before:
        if value in _values(spoken.arguments):
            return ""
        text = spoken.result[:_LONGEST]
        if value in text or written in text:
            return call_of(spoken.call_id)
    return None


def _values(arguments: str | dict[str, Any]) -> Iterator[str | None]:
    """The values that are somebody's, as text; None for one that has none."""
    left = [_decoded(arguments) if isinstance(arguments, str) else arguments]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += reversed(value.values())
        elif isinstance(value, list | tuple | set | frozenset):
            left += value
        elif not _is_anybodys(value):
            yield str(value) if isinstance(value, str | int | float) else None


def _decoded(arguments: str) -> Any:
    with suppress(msgspec.DecodeError, RecursionError):
        return msgspec.json.decode(arguments)
    return arguments


def _is_anybodys(value: Any) -> bool:
    """Whether it tells nothing of where it comes from."""
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, int | float):
        return abs(value) < _SMALL
    return isinstance(value, str) and (len(value) < _SHORT or _CHOICE.fullmatch(value) is not None)
