"""How a declaration is read: file to AgentSpec, with everything that is wrong told at once, by line and key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from hotloop.config.nodes import Entry, Faults, entries, has_variable, is_null, items, parse, readings, under
from hotloop.config.shapes import UNITS, Section, durations_of, field_of, sections_of, shape_of, types_of
from hotloop.config.silent import silent_alerts
from hotloop.config.spec import AgentSpec
from hotloop.errors import ConfigError
from hotloop.fields import Text, in_plain_words, marked
from hotloop.files import read_text
from hotloop.units import parse_duration
from hotloop.words import did_you_mean

_HIDDEN = "does not fit; its value comes from the environment and is not shown"


class _Wrong(Exception):
    """A value is wrong: what to tell, and whether telling it shows the value itself."""

    def __init__(self, text: str, shows_value: bool = False) -> None:
        super().__init__(text)
        self.shows_value = shows_value


def read_declaration(path: Path) -> AgentSpec:
    """Read a declaration; see `hotloop.config.spec.load_spec`."""
    faults = Faults(path)
    try:
        root = parse(path)
        spec: AgentSpec = _Reader(faults, path.parent).section(Entry(1, root), AgentSpec)
    except RecursionError:
        raise ConfigError(f"An alias in {path} refers to itself.") from None
    faults.raise_any()
    _note_silent_alerts(spec, root, faults)
    faults.raise_any()
    return spec


def _note_silent_alerts(spec: AgentSpec, root: yaml.Node, faults: Faults) -> None:
    for place, why in silent_alerts(spec):
        telemetry = entries(root, "", faults)["telemetry"]
        rules = items(entries(telemetry.node, "", faults)["alerts"], "", faults)
        faults.add(rules[place].line, f"telemetry.alerts[{place}]", why)


class _Reader:
    """Reads mappings into Structs; notes what is wrong and reads on."""

    def __init__(self, faults: Faults, folder: Path) -> None:
        self._faults = faults
        self._folder = folder

    def section(self, section: Entry, cls: Section, where: str = "") -> Any:
        """The Struct that a mapping declares; None when something is wrong in it."""
        before = len(self._faults)
        given: dict[str, Any] = {}
        keys = entries(section.node, where, self._faults)
        if len(self._faults) > before and not keys:
            return None
        for key, entry in keys.items():
            path = under(where, key)
            field, unit = field_of(cls, key)
            if not field:
                self._faults.add(entry.line, path, _unknown(cls, key))
            elif field in given:
                self._faults.add(entry.line, path, f"{field} is given twice, in different units")
            else:
                given[field] = self._value(types_of(cls)[field], unit, entry, path)
        self._require(cls, given, section.line, where)
        return self._make(cls, given, section, where) if len(self._faults) == before else None

    def _require(self, cls: Section, given: dict[str, Any], line: int, where: str) -> None:
        for field in msgspec.structs.fields(cls):
            if field.required and field.name not in given:
                self._faults.add(line, under(where, field.name), "is missing")

    def _make(self, cls: Section, given: dict[str, Any], section: Entry, where: str) -> Any:
        if cls is AgentSpec:
            given["folder"] = self._folder
        try:
            return cls(**given)
        except ConfigError as error:
            self._note(_Wrong(str(error), shows_value=True), section, where)
            return None

    def _value(self, kind: Any, unit: str, entry: Entry, where: str) -> Any:
        """What a node declares for a field of this type."""
        shape = shape_of(kind)
        if shape.optional and is_null(entry.node):
            return None
        if shape.section is not None and not (shape.scalar and isinstance(entry.node, yaml.ScalarNode)):
            return self.section(entry, shape.section, where)
        if shape.items is not None:
            found = items(entry, where, self._faults)
            return tuple(self._value(shape.items, "", item, f"{where}[{place}]") for place, item in enumerate(found))
        if shape.values is not None:
            keys = entries(entry.node, where, self._faults)
            return {key: self._value(shape.values, "", value, under(where, key)) for key, value in keys.items()}
        if marked(kind, "file"):
            return self._text(kind, entry, where)
        return self._leaf(kind, unit, entry, where)

    def _text(self, kind: Any, entry: Entry, where: str) -> str | None:
        """A text, given as such or as {file: path}."""
        in_file = isinstance(entry.node, yaml.MappingNode)
        text: str | None = self._text_of_file(entry, where) if in_file else self._leaf(kind, "", entry, where)
        return text and text.strip()

    def _text_of_file(self, entry: Entry, where: str) -> str | None:
        keys = entries(entry.node, where, self._faults)
        if keys.keys() != {"file"}:
            self._faults.add(entry.line, where, "expected text, or the one key file with a path")
            return None
        file, where = keys["file"], under(where, "file")
        path = self._leaf(Text, "", file, where)
        try:
            return None if path is None else read_text(self._folder / path)
        except ConfigError as error:
            self._note(_Wrong(str(error), shows_value=True), file, where)
            return None

    def _leaf(self, kind: Any, unit: str, entry: Entry, where: str) -> Any:
        try:
            return _meant(kind, unit, entry.node)
        except _Wrong as wrong:
            self._note(wrong, entry, where)
            return None

    def _note(self, wrong: _Wrong, entry: Entry, where: str) -> None:
        hidden = wrong.shows_value and has_variable(entry.node)
        self._faults.add(entry.line, where, _HIDDEN if hidden else str(wrong))


def _meant(kind: Any, unit: str, node: yaml.Node) -> Any:
    """The value of a field of this type, from what its node can mean."""
    try:
        meanings = readings(node)
    except LookupError as error:
        name = error.args[0]
        hint = f"set it, or write a default: ${{{name}:-...}}"
        raise _Wrong(f"environment variable {name} is not set; {hint}") from None
    except ValueError as error:
        raise _Wrong(str(error), shows_value=True) from None
    wrong = _Wrong("")
    for meaning in meanings:
        try:
            return _converted(kind, unit, meaning)
        except msgspec.ValidationError as error:
            wrong = _Wrong(_in_words_of_yaml(error, kind))
        except (ConfigError, ValueError) as error:
            wrong = _Wrong(str(error), shows_value=True)
    raise wrong


def _converted(kind: Any, unit: str, value: Any) -> Any:
    words = shape_of(kind).words
    if value is not None and value not in words and marked(kind, "duration"):
        value = _seconds(value, unit, words)
    value = msgspec.convert(value, kind)
    if value is not None and (check := marked(kind, "check")):
        check(value)
    return value


def _seconds(value: Any, unit: str, words: Sequence[str]) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if unit and not number:
        raise ValueError(f"expected a number of {'milliseconds' if unit == '_ms' else 'seconds'}")
    also = "".join(f", or {word}" for word in words)
    if not number and not isinstance(value, str):
        raise ValueError(f"expected a time such as 600ms, 1.5s or 2m, or a number of seconds{also}")
    try:
        return parse_duration(value) * UNITS[unit]
    except ValueError as error:
        raise ValueError(f"{error}{also}") from None


def _in_words_of_yaml(error: msgspec.ValidationError, kind: Any) -> str:
    text, _ = in_plain_words(error, kind)
    unquoted = re.fullmatch("expected (some )?text, got (?!nothing|a list|keys).*", text)
    return f"{text}; put it in quotes" if unquoted else text


def _unknown(cls: Section, key: str) -> str:
    known = list(types_of(cls))
    elsewhere = [under(name, key) for name, section in sections_of(AgentSpec).items() if field_of(section, key)[0]]
    if elsewhere or key in types_of(AgentSpec):
        return f"unknown key here; did you mean {' or '.join(elsewhere) or key + ' at the top level'}?"
    spelled_out = [name + unit for name in durations_of(cls) for unit in UNITS]
    if hint := did_you_mean(key, [*known, *spelled_out]):
        return f"unknown key{hint}"
    return f"unknown key; there are {', '.join(known)}"
