"""How values are written into a request: the styles of OpenAPI, percent-encoded so that a value stays a value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

import msgspec

_EXACT = 2**53  # whole numbers beyond it are not exact as floats

Pair = tuple[str, str]
"""A name and its value, both percent-encoded."""


def text_of(value: Any) -> str:
    """A value as text: true and false as in JSON, 3.0 as 3, anything with parts as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return str(int(value))
    return msgspec.json.encode(value).decode()


def encoded(value: Any) -> str:
    """A value as text in which nothing has a meaning for a URL."""
    return quote(text_of(value), safe="")


def joined(written: Iterable[Pair]) -> str:
    """Pairs as a query or a form."""
    return "&".join(f"{name}={value}" for name, value in written)


def simple(value: Any, explode: bool, write: Callable[[Any], str] = encoded) -> str:
    """The style of paths and headers: `a,b`, of an object `k,v` or `k=v`."""
    if isinstance(value, dict):
        return ",".join(f"{write(key)}{'=' if explode else ','}{write(part)}" for key, part in value.items())
    return ",".join(map(write, value)) if isinstance(value, list) else write(value)


def pairs(name: str, value: Any, style: str, explode: bool) -> list[Pair]:
    """The styles of queries and forms: one pair, or one for each part of the value; null is none."""
    if value is None:
        return []
    if style == "deepObject" and isinstance(value, dict | list):
        return _deep(name, value)
    if isinstance(value, dict) and explode:
        return [pair for key, part in value.items() for pair in pairs(key, part, "form", True)]
    if isinstance(value, list) and explode:
        return [(encoded(name), encoded(part)) for part in value]
    if isinstance(value, dict | list):
        parts = [part for item in value.items() for part in item] if isinstance(value, dict) else value
        return [(encoded(name), ",".join(map(encoded, parts)))] if parts else []
    return [(encoded(name), encoded(value))]


def _deep(name: str, value: Any) -> list[Pair]:
    """`name[key]=value`, and so on inward; a list repeats its name."""
    if isinstance(value, dict):
        return [pair for key, part in value.items() for pair in _deep(f"{name}[{key}]", part)]
    if isinstance(value, list):
        return [pair for part in value for pair in _deep(name, part)]
    return [] if value is None else [(encoded(name), encoded(value))]
