"""References to results of earlier calls, `{"$ref": "s1.items[0].id"}`: found, checked, and replaced by values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from hotloop.errors import ArgumentsError, ToolError
from hotloop.models.wire.frames import decode_json
from hotloop.tools.paths import Path, parse_path, places, write_path
from hotloop.words import short

STEP_ID = "^[A-Za-z_][A-Za-z0-9_]{0,31}$"
_NESTED = 64  # levels of arguments in which references are looked for


class Reference(msgspec.Struct, frozen=True):
    """The result of `step`, or what `path` leads to in it."""

    step: str
    path: Path = ()

    def __str__(self) -> str:
        return self.step + write_path(self.path)

    def of(self, value: Any) -> Any:
        """What it stands for when the step's result is `value`, as decoded JSON; of `[*]` one flat list.

        Raises ToolError, with what is there instead, if it leads nowhere.
        """
        found = [inner for _, inner in places(value, self.path, self.step)]
        return found if None in self.path else found[0]


def parse_reference(text: str) -> Reference:
    """`s1`, `s1.user.name`, `s1["odd name"]`, `s1.items[-1]`, `s1.items[*].id`, each also after `$.`.

    Raises ArgumentsError for anything else.
    """
    path = parse_path(text)
    if not path or not isinstance(path[0], str) or not re.fullmatch(STEP_ID, path[0]):
        raise ArgumentsError(f"{short(text)!r} names no step; write a reference like s1, s1.user_id or s1.items[0].id")
    return Reference(path[0], path[1:])


def is_reference(value: Any) -> bool:
    """True for an object with nothing but the text `$ref`."""
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("$ref"), str)


def references_in(arguments: Any) -> list[Reference]:
    """All references in decoded arguments, in the order in which they are written.

    Raises ArgumentsError for one that cannot be read, and for arguments nested too deeply.
    """
    return [parse_reference(text) for text in _references(arguments, 0)]


def resolve(arguments: Any, results: Mapping[str, Any]) -> Any:
    """The arguments with values in place of references; `results` has a step's value, or the ToolError it failed with.

    A value is taken as it is, even if it contains what looks like a reference. Raises ToolError for a reference that
    leads nowhere.
    """
    if isinstance(arguments, list):
        return [resolve(item, results) for item in arguments]
    if not isinstance(arguments, dict):
        return arguments
    if is_reference(arguments):
        return _value(parse_reference(arguments["$ref"]), results)
    return {name: resolve(item, results) for name, item in arguments.items()}


def value_of(content: str) -> Any:
    """A result as references see it: the JSON that it is, or else its text."""
    try:
        return decode_json(content)
    except ValueError:
        return content


def _references(value: Any, depth: int) -> Iterator[str]:
    if depth > _NESTED:
        raise ArgumentsError("the arguments are nested too deeply")
    if is_reference(value):
        yield value["$ref"]
    elif isinstance(value, dict) and "$ref" in value:
        raise ArgumentsError('a reference is an object with nothing but the text "$ref"')
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _references(item, depth + 1)


def _value(reference: Reference, results: Mapping[str, Any]) -> Any:
    if reference.step not in results:
        raise ToolError(f"{reference} is not there, because {reference.step} has no result")
    value = results[reference.step]
    if isinstance(value, ToolError):
        raise ToolError(f"{reference} is not there, because {reference.step} failed: {value}")
    return reference.of(value)
