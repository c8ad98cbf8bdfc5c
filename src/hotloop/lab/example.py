"""A value that satisfies a JSON Schema: a word that somebody said where one fits, else something plain."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from hotloop.errors import ConfigError

Schema = dict[str, Any]

_WORD = re.compile(r"(?:-(?=[0-9]))?[A-Za-z0-9_](?:[A-Za-z0-9_.@:/+-]*[A-Za-z0-9_])?")
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


class CannotExemplify(ConfigError):
    """No value is known that satisfies the schema."""


def example(schema: Schema, text: str = "") -> Any:
    """A value for `schema`: its constant or a choice, a word of `text`, its own example or default, or a plain value.

    Objects get their required properties, arrays one item unless they need more. Raises CannotExemplify for what has
    no plain value, as text of a pattern or a format, and for references to other schemas.
    """
    return _value(schema, "", _WORD.findall(text))


def _value(schema: Schema, name: str, said: list[str]) -> Any:
    for option in schema.get("anyOf", [{}]):
        chosen = schema | option
        with suppress(re.error):  # nothing is known to fit a pattern that Python cannot read
            for value in _candidates(chosen, name, said):
                if _fits(value, chosen):
                    return value
    raise CannotExemplify(f"No value is known for {name!r}, whose schema is {schema}; give a script of replies.")


def _candidates(schema: Schema, name: str, said: list[str]) -> Iterator[Any]:
    if "const" in schema:
        yield schema["const"]
    elif "enum" in schema:
        words = {word.lower() for word in said}
        yield from sorted(schema["enum"], key=lambda choice: str(choice).lower() not in words)
    else:
        kind = schema.get("type", "")
        kind = kind[0] if isinstance(kind, list) else kind
        yield from _said(schema, kind, said)
        yield from schema.get("examples", ())
        yield from [schema["default"]] if "default" in schema else ()
        yield from _plain(schema, kind, name, said)


def _said(schema: Schema, kind: str, said: list[str]) -> Iterator[Any]:
    """The words as values of this kind; of text that may be anything only those with a digit, such as order numbers."""
    if kind == "integer":
        yield from (int(word) for word in said if _INTEGER.fullmatch(word))
    elif kind == "number":
        yield from (float(word) for word in said if _NUMBER.fullmatch(word))
    elif kind == "string" and "format" not in schema:
        yield from (word for word in said if "pattern" in schema or any(map(str.isdigit, word)))


def _plain(schema: Schema, kind: str, name: str, said: list[str]) -> Iterator[Any]:
    if kind == "boolean":
        yield True
    elif kind == "null":
        yield None
    elif kind == "string" and "format" not in schema:
        yield "text".ljust(schema.get("minLength", 0), ".")[: schema.get("maxLength")]
    elif kind in ("integer", "number"):
        yield from _numbers(schema, kind)
    elif kind == "array":
        items = schema.get("items") or {}
        count = schema.get("minItems") or min(len(items), schema.get("maxItems", 1), 1)
        yield [_value(items, name, said) for _ in range(count)]
    elif kind == "object":
        properties = schema.get("properties", {})
        yield {key: _value(properties.get(key, {}), key, said) for key in schema.get("required", ())}


def _numbers(schema: Schema, kind: str) -> Iterator[int | float]:
    low: float = max(schema.get(key, -math.inf) for key in ("minimum", "exclusiveMinimum"))
    high: float = min(schema.get(key, math.inf) for key in ("maximum", "exclusiveMaximum"))
    yield schema.get("multipleOf", 1)
    yield from (round(bound) + away for bound in (low, high) if math.isfinite(bound) for away in (0, 1, -1))
    if kind == "number":
        yield (low + high) / 2


def _fits(value: Any, schema: Schema) -> bool:
    if isinstance(value, str):
        length_fits = schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
        return length_fits and bool(re.search(schema.get("pattern", ""), value))
    if isinstance(value, int | float):
        within: bool = schema.get("minimum", value) <= value <= schema.get("maximum", value)
        strictly: bool = schema.get("exclusiveMinimum", -math.inf) < value < schema.get("exclusiveMaximum", math.inf)
        step: float = schema.get("multipleOf", value or 1)
        return within and strictly and value % step == 0
    if isinstance(value, list):
        return len(value) < 2 or not schema.get("uniqueItems")
    return not isinstance(value, dict) or len(value) >= schema.get("minProperties", 0)
