"""A string, number or boolean that satisfies a JSON Schema: a word that somebody said, or a made-up value."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from hotloop.errors import ConfigError
from hotloop.lab.pattern import matching_text

Schema = dict[str, Any]

_WORD = re.compile(r"(?:-(?=[0-9]))?[A-Za-z0-9_][A-Za-z0-9_.@:/+-]*")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_NAMES_A_NUMBER = re.compile(r"(id|no|nr|number|code|key)$", re.IGNORECASE)
_FORMAT_EXAMPLES = {
    "byte": "aG90bG9vcA==",
    "date": "2025-01-07",
    "date-time": "2025-01-07T10:00:00Z",
    "decimal": "1",
    "duration": "PT1S",
    "email": "user@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "time": "10:00:00Z",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_FORMAT_WORDS = {"date": r"^\d{4}-\d\d-\d\d$", "email": r"^[^@]+@[^@]+\.[a-z]+$", "uri": r"^https?://."}


class CannotExemplify(ConfigError):
    """No value was found that satisfies the schema."""


class Word(NamedTuple):
    """A word of a text, and the one before it."""

    text: str
    previous: str


def words(text: str) -> list[Word]:
    """The words of `text` that could be an argument: numbers, identifiers, Latin words, addresses."""
    found = [word.rstrip(".:/+-") for word in _WORD.findall(text)]
    return [Word(word, previous) for word, previous in zip(found, ["", *found], strict=False)]


def leaf(schema: Schema, name: str, said: list[Word]) -> Any:
    """A value for `schema`, which belongs to the parameter `name`; raises CannotExemplify."""
    kind = schema_type(schema)
    try:
        for value in _candidates(schema, kind, name, said):
            if _fits(value, kind, schema):
                return value
    except re.error as error:
        raise CannotExemplify(f"The pattern of {name!r} is no regular expression: {error}.") from error
    raise CannotExemplify(f"No value is known for {name!r}, whose schema is {schema}.")


def schema_type(schema: Schema) -> str:
    """The type that `schema` asks for; of several the first, and "string" when it does not say."""
    kind = schema.get("type", "object" if "properties" in schema else "string")
    return str(kind[0] if isinstance(kind, list) else kind)


def _candidates(schema: Schema, kind: str, name: str, said: list[Word]) -> Iterator[Any]:
    likeliest_first = sorted(said, key=lambda word: _distance(word, name))
    yield from _as_values(likeliest_first, kind, schema, name)
    yield from schema.get("examples", ())
    if "default" in schema:
        yield schema["default"]
    yield from _made_up(schema, kind)


def _as_values(said: list[Word], kind: str, schema: Schema, name: str) -> Iterator[Any]:
    if kind == "string":
        yield from (word.text for word in said if _tells(word, schema, name))
    elif kind in ("integer", "number"):
        yield from (_number(word.text) for word in said if _NUMBER.fullmatch(word.text))


def _distance(word: Word, name: str) -> tuple[bool, bool]:
    """Words after a part of the parameter's name come first ("order 1024" for `order_id`), then those of its kind."""
    has_digit = any(map(str.isdigit, word.text))
    return not _announced(word, name), has_digit is not bool(_NAMES_A_NUMBER.search(name))


def _announced(word: Word, name: str) -> bool:
    return word.previous.lower() in name.lower().split("_")


def _tells(word: Word, schema: Schema, name: str) -> bool:
    """Whether the word is more than a filler, for a string of this schema."""
    if "format" in schema:
        return bool(re.search(_FORMAT_WORDS.get(schema["format"], r"(?!)"), word.text))
    if "pattern" in schema or _announced(word, name):
        return True
    return any(map(str.isdigit, word.text)) or bool(word.previous and word.text[0].isupper() and len(word.text) > 1)


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)


def _made_up(schema: Schema, kind: str) -> Iterator[Any]:
    if kind == "boolean":
        yield True
    elif kind == "null":
        yield None
    elif kind == "string":
        yield from _made_up_strings(schema)
    else:
        yield from _made_up_numbers(schema, kind)


def _made_up_strings(schema: Schema) -> Iterator[str]:
    shortest, longest = schema.get("minLength", 0), schema.get("maxLength")
    if "format" in schema:
        yield _FORMAT_EXAMPLES.get(schema["format"], "example")
    if "pattern" in schema:
        matching = matching_text(schema["pattern"], shortest, longest)
        yield from () if matching is None else (matching,)
    yield "example".ljust(shortest, "-")[:longest]


def _made_up_numbers(schema: Schema, kind: str) -> Iterator[int | float]:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    step = schema.get("multipleOf", 1)
    whole = kind == "integer"
    yield 1
    yield step
    yield 0
    for bound, away in ((low, 1), (high, -1)):
        if bound is not None:
            nearest = (math.ceil if away > 0 else math.floor)(bound / step) * step
            near = [bound, bound + away, nearest, nearest + away * step]
            yield from map(math.trunc, near) if whole else (*near, math.nextafter(bound, away * math.inf))
    if low is not None and high is not None:
        yield (low + high) // 2 if whole else (low + high) / 2


def _fits(value: Any, kind: str, schema: Schema) -> bool:
    if kind == "string":
        return isinstance(value, str) and _fits_string(value, schema)
    if kind in ("integer", "number"):
        numeric = int if kind == "integer" else (int, float)
        return isinstance(value, numeric) and not isinstance(value, bool) and _fits_number(value, schema)
    return value is None if kind == "null" else isinstance(value, bool)


def _fits_string(value: str, schema: Schema) -> bool:
    length_fits = schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
    return length_fits and bool(re.search(schema.get("pattern", ""), value))


def _fits_number(value: float, schema: Schema) -> bool:
    step = schema.get("multipleOf")
    return (
        schema.get("minimum", value) <= value <= schema.get("maximum", value)
        and schema.get("exclusiveMinimum", -math.inf) < value < schema.get("exclusiveMaximum", math.inf)
        and (step is None or value % step == 0)
    )
