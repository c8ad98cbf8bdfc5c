"""Questions and what is right, from a file of YAML or of JSON lines."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from hotloop.errors import ConfigError
from hotloop.files import read_text


class ExpectedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool that must have been called, with at least these arguments."""

    name: str
    arguments: dict[str, Any] = {}


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question and what makes its answer right; all that is given must hold.

    `equals` is the whole answer, but for case, blanks and punctuation at its end. `contains` are texts that it has,
    all of them, and `contains_any` texts of which it has one, whatever their case. `matches` is a regular expression
    that is found in it. `json` is what its JSON has at least. `calls` are tools that were called on the way.
    """

    prompt: str
    equals: str | None = None
    contains: tuple[str, ...] = ()
    contains_any: tuple[str, ...] = ()
    matches: str | None = None
    json: dict[str, Any] | None = None
    calls: tuple[ExpectedCall, ...] = ()

    def __post_init__(self) -> None:
        if not self.prompt.strip():
            raise ValueError("its prompt is empty")
        if not any(getattr(self, name) not in (None, ()) for name in self.__struct_fields__[1:]):
            raise ValueError(f"it does not say what is right; give {', '.join(self.__struct_fields__[1:])}")
        try:
            re.compile(self.matches or "")
        except re.error as error:
            raise ValueError(f"matches is no regular expression: {error}") from None


def load_cases(path: str | Path) -> list[Case]:
    """The cases in a file: a YAML or JSON list, or one object a line in a .jsonl file.

    Raises ConfigError that names the case which is none.
    """
    path = Path(path)
    found = _lines(path) if path.suffix == ".jsonl" else _items(path)
    cases = [_case(place, value) for place, value in found]
    if not cases:
        raise ConfigError(f"The file {path} has no cases.")
    return cases


def _lines(path: Path) -> list[tuple[str, Any]]:
    """The objects of JSON lines, each after the place that is named if it is wrong."""
    found = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if line.strip():
            try:
                found.append((f"{path}:{number}", msgspec.json.decode(line)))
            except msgspec.DecodeError as error:
                raise ConfigError(f"{path}:{number}: not valid JSON: {error}.") from None
    return found


def _items(path: Path) -> list[tuple[str, Any]]:
    try:
        import yaml
    except ModuleNotFoundError:
        raise ConfigError('Cases in YAML need PyYAML: pip install "hotloop[yaml]".') from None
    try:
        items = yaml.safe_load(read_text(path))
    except yaml.YAMLError as error:
        raise ConfigError(f"The file {path} is not valid YAML: {' '.join(str(error).split())}.") from None
    if not isinstance(items, list):
        raise ConfigError(f"The file {path} has to be a list of cases, each with a prompt and what is right.")
    return [(f"{path}: case {number}", item) for number, item in enumerate(items, 1)]


def _case(place: str, value: Any) -> Case:
    try:
        return msgspec.convert(value, Case)
    except msgspec.ValidationError as error:
        what, _, where = str(error).replace("`", "").partition(" - at $")
        raise ConfigError(f"{place}{where}: {what[:1].lower()}{what[1:]}.") from None
