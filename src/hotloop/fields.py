"""What the fields of a declaration may hold, and what a person is told of one that holds something else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin

import msgspec
from msgspec import Meta

from hotloop.errors import ConfigError

_MOST = 1e9  # keeps infinity out
_TIME = {"duration": True}
_HIDDEN = {"secret": True}

Text: TypeAlias = Annotated[str, Meta(min_length=1)]
Natural: TypeAlias = Annotated[int, Meta(ge=0)]
Count: TypeAlias = Annotated[int, Meta(ge=1)]
Amount: TypeAlias = Annotated[float, Meta(ge=0, le=_MOST)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
SomeShare: TypeAlias = Annotated[float, Meta(gt=0, le=1)]
Duration: TypeAlias = Annotated[float, Meta(extra=_TIME)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=_MOST, extra=_TIME)]
SecondsOrZero: TypeAlias = Annotated[float, Meta(ge=0, le=_MOST, extra=_TIME)]
Secret: TypeAlias = Annotated[str, Meta(extra=_HIDDEN)]
Secrets: TypeAlias = Annotated[dict[str, str], Meta(extra=_HIDDEN)]

_PLAIN = (str, int, float, bool, NoneType)
_PLAIN_ORIGINS = (Annotated, Literal, dict, list, tuple)
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "array": "a list",
    "object": "keys with values",
    "null": "nothing",
}
_PHRASES = {
    "text of length >= 1": "some text",
    "Object contains unknown field": "unknown key",
    "Object missing required field": "missing key",
}
_NO_TEXT = "expected text, got half of a character; decode its bytes in their encoding"
_TOLD = r"(?s)(.*?)(?: - at (`key` in )?`\$\.?(.*)`)?"  # what, whether of a key, where


class _Checks(NamedTuple):
    """Of a Struct: what msgspec can judge of it, and which fields take what only a class can make (or None)."""

    plain: type[msgspec.Struct]
    made: dict[str, type]
    optional: frozenset[str]


def require(condition: bool, otherwise: str) -> None:
    """Raise ConfigError with this sentence unless the condition holds."""
    if not condition:
        raise ConfigError(otherwise)


def check_fields(kind: type[msgspec.Struct], given: Mapping[str, Any], owner: str) -> None:
    """Raise ConfigError for a value that its field in `kind` must not hold, as the argument of `owner` that it is.

    No message shows the value, which may be a secret. Fields of types that msgspec does not know are not looked at.
    """
    plain, made, optional = _checks(kind)
    for name, cls in made.items():
        fits = isinstance(given[name], cls) or (given[name] is None and name in optional)
        require(fits, f"{owner}({name}=...): make it with {cls.__name__}(...).")
    for name, value in given.items():
        require(not isinstance(value, str) or _is_text(value), f"{owner}({name}=...): {_NO_TEXT}.")
    floats = {name: float(value) for name, value in given.items() if isinstance(value, float)}  # numpy's are floats too
    try:
        msgspec.convert({**given, **floats}, plain)
    except msgspec.ValidationError as error:
        what, place = in_plain_words(error, plain)
        raise ConfigError(f"{owner}({place}=...): {what}.") from None


def in_plain_words(error: Exception, kind: Any = None) -> tuple[str, str]:
    """What msgspec finds wrong with a value, and where in it: `calls[0].name`, or "" for the whole of it.

    With the type that the value should have been of, it is told which words would have done.
    """
    found = re.fullmatch(_TOLD, str(error))
    assert found is not None  # for everything in it may be missing
    what, key, place = found[1], found[2], found[3] or ""
    if what.startswith("Invalid enum value"):
        what = _choices(kind, place) or what
    what = re.sub("`(.*?)`", lambda types: _named(types[1]), what)
    for theirs, ours in _PHRASES.items():
        what = what.replace(theirs, ours)
    what = what.removesuffix(".0")
    return f"{what[:1].lower()}{what[1:]}{', as a key' if key else ''}", place


def options(kind: Any) -> tuple[Any, ...]:
    """The types of a union, or the one that it is."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def marked(kind: Any, mark: str) -> Any:
    """What the annotation of a type, or of one in a union, says under this name; None if nothing."""
    metas = (meta for part in options(kind) for meta in getattr(part, "__metadata__", ()))
    return next((meta.extra[mark] for meta in metas if meta.extra and mark in meta.extra), None)


def _is_text(value: str) -> bool:
    """Whether it can be encoded: it has no surrogates, which are what is left of bytes that were no text."""
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


@lru_cache(maxsize=256)
def _checks(kind: type[msgspec.Struct]) -> _Checks:
    types = {field.name: options(field.type) for field in msgspec.structs.fields(kind)}
    structs = {name: [each for each in types[name] if _is_struct(each)] for name in types}
    plain = [(name, Union[types[name]]) for name in types if all(map(_is_plain, types[name]))]  # noqa: UP007
    made = {name: found[0] for name, found in structs.items() if found}
    return _Checks(msgspec.defstruct("Plain", plain), made, frozenset(name for name in made if NoneType in types[name]))


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _is_plain(kind: Any) -> bool:
    return kind in _PLAIN or get_origin(kind) in _PLAIN_ORIGINS


def _named(types: str) -> str:
    """Types as msgspec writes them, for people."""
    names = [name for name in types.split(" | ") if name != "null"] or ["null"]
    return " or ".join(_WORDS.get(name, name) for name in names)


def _choices(kind: Any, place: str) -> str:
    """What would have done in place of a word that is unknown; "" where that cannot be told."""
    if place and _is_struct(kind):
        kind = next((field.type for field in msgspec.structs.fields(kind) if field.name == place), None)
    told = []
    for part in options(kind):
        if get_origin(part) is Literal:
            told += [f'"{word}"' for word in get_args(part)]
        elif part is not NoneType:
            told.append(_WORDS.get(getattr(getattr(part, "__origin__", part), "__name__", ""), ""))
    return f"Expected {' or '.join(told)}" if all(told) else ""
