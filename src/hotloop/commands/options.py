"""How options are written on the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

from cyclopts import Parameter, Token
from cyclopts.types import PositiveInt

from hotloop.units import parse_duration

_SHARE = re.compile(r"(\d+\.?\d*|\.\d+) *(%?)", re.ASCII)


def share_of(text: str) -> float:
    """A share, written like 5% or 0.05; more than all of something only with the sign. Raises ValueError."""
    found = _SHARE.fullmatch(text.strip())
    if found is None or (float(found[1]) > 1 and not found[2]):
        raise ValueError(f"{text!r} is no share; write it like 5% or 0.05")
    return float(found[1]) / (100 if found[2] else 1)


def _share(_: Any, tokens: Sequence[Token]) -> float:
    return share_of(tokens[0].value)


def _seconds(_: Any, tokens: Sequence[Token]) -> float:
    return parse_duration(tokens[0].value)


def _named(_: Any, value: str | list[str] | None) -> None:
    names = [value] if isinstance(value, str) else value or []
    if not all(map(str.strip, names)):
        raise ValueError("A name is empty; fill it in, or leave the option out.")


def _shown(seconds: float) -> str:
    return f"{seconds:g}s" if seconds >= 1 else f"{seconds * 1000:g}ms"


Duration: TypeAlias = Annotated[float, Parameter(converter=_seconds, show_default=_shown, metavar="TIME")]
"""Seconds, written like 600ms or 1.5s."""

Share: TypeAlias = Annotated[float, Parameter(converter=_share, metavar="SHARE", show_default=False)]
"""A part of something, written like 5% or 0.05."""

Flag: TypeAlias = Annotated[bool, Parameter(negative=(), show_default=False)]
"""Off unless given."""

Json: TypeAlias = Annotated[bool, Parameter(name="--json", negative=(), show_default=False)]
"""Print one JSON object, and nothing else, on stdout."""

Name: TypeAlias = Annotated[str, Parameter(validator=_named, metavar="NAME")]
"""A name that is not empty, as one from an unset variable of the shell would be."""

Names: TypeAlias = Annotated[list[str], Parameter(validator=_named, negative=(), metavar="NAME")]
"""Such names, from an option that may be repeated."""

Count: TypeAlias = PositiveInt
