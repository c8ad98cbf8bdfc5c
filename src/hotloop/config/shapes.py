"""What a declaration may say for a field, by its type: keys of a section, a list, keys of any name, or a value."""

from __future__ import annotations

from functools import cache
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args, get_origin

import msgspec

from hotloop.fields import marked, options

Section = type[msgspec.Struct]
UNITS = {"": 1.0, "_ms": 1e-3, "_seconds": 1.0}  # that a key of a duration may name


class Shape(NamedTuple):
    """Of a type: its section, the type of its items, or that of its values; all None for a value of one piece.

    `scalar` tells that some text, or yes or no, may stand in the place of the section, `optional` that there may be
    nothing; `words` are texts that a duration may be instead.
    """

    section: Section | None
    items: Any
    values: Any
    scalar: bool
    optional: bool
    words: tuple[str, ...]


@cache
def shape_of(kind: Any) -> Shape:
    """The shape of a type."""
    section = items = values = None
    words: tuple[str, ...] = ()
    scalar = False
    for part in options(kind):
        bare = getattr(part, "__origin__", part) if hasattr(part, "__metadata__") else part
        if isinstance(bare, type) and issubclass(bare, msgspec.Struct):
            section = bare
        elif get_origin(bare) is tuple:
            items = get_args(bare)[0]
        elif get_origin(bare) is dict:
            values = get_args(bare)[1]
        elif get_origin(bare) is Literal:
            words += get_args(bare)
        scalar = scalar or bare in (str, bool)
    return Shape(section, items, values, scalar, NoneType in options(kind), words)


@cache
def types_of(cls: Section) -> dict[str, Any]:
    """The fields that a file may give, with their types; `folder` is where it lies."""
    return {field.name: field.type for field in msgspec.structs.fields(cls) if field.name != "folder"}


def sections_of(cls: Section) -> dict[str, Section]:
    """The fields that are sections of their own."""
    shapes = {name: shape_of(kind).section for name, kind in types_of(cls).items()}
    return {name: section for name, section in shapes.items() if section is not None}


def durations_of(cls: Section) -> list[str]:
    """The fields that are times."""
    return [name for name, kind in types_of(cls).items() if marked(kind, "duration")]


def field_of(cls: Section, key: str) -> tuple[str, str]:
    """The field that a key sets and the unit that the key names; the field is "" for an unknown key."""
    if key in types_of(cls):
        return key, ""
    for unit in filter(None, UNITS):
        if key.removesuffix(unit) in durations_of(cls) and key.endswith(unit):
            return key.removesuffix(unit), unit
    return "", ""
