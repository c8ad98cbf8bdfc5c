"""Questions and what is right, from a file of YAML or of JSON lines."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hotloop.errors import ConfigError
from hotloop.fields import in_plain_words
from hotloop.files import json_lines, read_text
from hotloop.words import did_you_mean


class ExpectedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool that must have been called, with at least these arguments."""

    name: str
    arguments: dict[str, Any] = {}


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question and what makes its answer right; all that is given must hold.

    `equals` is the whole answer, but for case, blanks and punctuation at its end. `contains` are words or phrases that
    it has, all of them, and `contains_any` such of which it has one, whatever their case. `matches` is a regular
    expression that is found in it. `json` is what its JSON has at least. `calls` are tools that were called on the way.
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


class _Given(NamedTuple):
    """A case as it is written: its value, its place, and those of its keys, as far as these are known."""

    value: Any
    place: str
    places: dict[str, str]


_FIELDS = {field.name: field.type for field in msgspec.structs.fields(Case)}


def load_cases(path: str | Path) -> list[Case]:
    """The cases in a file: a YAML or JSON list, or one object a line in a .jsonl file.

    Raises ConfigError that names all that is wrong, each with its line.
    """
    path = Path(path)
    given = _lines(path) if path.suffix == ".jsonl" else _items(path)
    if not given:
        raise ConfigError(f"The file {path} has no cases.")
    faults = [fault for each in given for fault in _faults(each)]
    if faults:
        raise ConfigError("\n".join(faults))
    return [msgspec.convert(each.value, Case) for each in given]


def _lines(path: Path) -> list[_Given]:
    found: list[tuple[str, Any]] = json_lines(path)
    return [_Given(value, place, {}) for place, value in found]


def _items(path: Path) -> list[_Given]:
    try:
        import yaml
    except ModuleNotFoundError:
        raise ConfigError('Cases in YAML need PyYAML: pip install "hotloop[yaml]".') from None
    try:
        root = yaml.compose(read_text(path), yaml.SafeLoader)
        if not isinstance(root, yaml.SequenceNode):
            raise ConfigError(f"The file {path} has to be a list of cases, each with a prompt and what is right.")
        return [_item(path, node) for node in root.value]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = ", ".join(filter(None, (error.context, error.problem)))
        raise ConfigError(f"{path}:{mark.line + 1 if mark else 1}: not valid YAML: {what}.") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"The file {path} is not YAML: {str(error).splitlines()[0]}.") from None


def _item(path: Path, node: Any) -> _Given:
    from yaml.constructor import SafeConstructor

    value = SafeConstructor().construct_object(node, deep=True)
    keys = [key for key, _ in node.value] if isinstance(value, dict) else []
    return _Given(value, f"{path}:{_line(node)}", {key.value: f"{path}:{_line(key)}" for key in keys})


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1


def _faults(given: _Given) -> list[str]:
    """Sentences on what is wrong with a case; of its keys first, for only then the whole of it can be judged."""
    value, place, places = given
    if not isinstance(value, dict):
        return [f"{place}: a case has keys: {', '.join(_FIELDS)}."]
    faults = [f"{places.get(key, place)}: {what}" for key, part in value.items() if (what := _fault(str(key), part))]
    what = "" if faults else _wrong(value, Case, "")
    return [f"{place}: {what}"] if what else faults


def _fault(key: str, value: Any) -> str:
    if key not in _FIELDS:
        return f"{key}: unknown key{did_you_mean(key, _FIELDS) or '.'}"
    return _wrong(value, _FIELDS[key], key)


def _wrong(value: Any, kind: Any, key: str) -> str:
    """Why a value is not of this kind, after where in it; "" if it is."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        what, where = in_plain_words(error, kind)
        return ": ".join(filter(None, (f"{key}{where}", f"{what}.")))
    return ""
