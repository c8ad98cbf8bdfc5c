"""How a declaration is read: file to AgentSpec, with everything that is wrong told at once, by line and key."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import yaml

from hotloop.budget import Budget
from hotloop.config.nodes import Entry, Faults, entries, has_variable, line_of, parse, read_text, readings, under
from hotloop.config.spec import (
    AgentSpec,
    AnswersSpec,
    CacheSpec,
    CascadeSpec,
    InferenceSpec,
    MCPSpec,
    ModelSpec,
    OpenAPISpec,
    RouterSpec,
    RuleSpec,
    RulesSpec,
    ToolsSpec,
)
from hotloop.errors import ConfigError
from hotloop.models.dialects import dialect_of
from hotloop.models.http.target import chat_url, parse_target
from hotloop.models.policy.policy import Breaker, Policy
from hotloop.units import parse_duration
from hotloop.words import did_you_mean

_SECTIONS: dict[str, type[msgspec.Struct]] = {  # of the whole file
    "inference": InferenceSpec,
    "router": RouterSpec,
    "tools": ToolsSpec,
    "cache": CacheSpec,
    "budget": Budget,
}
_NESTED: dict[tuple[type[msgspec.Struct], str], type[msgspec.Struct]] = {
    **{(AgentSpec, name): section for name, section in _SECTIONS.items()},
    (InferenceSpec, "policy"): Policy,
    (ModelSpec, "policy"): Policy,
    (Policy, "breaker"): Breaker,
    (RouterSpec, "cascade"): CascadeSpec,
    (CacheSpec, "answers"): AnswersSpec,
}
_LISTS: dict[tuple[type[msgspec.Struct], str], type[msgspec.Struct]] = {
    (InferenceSpec, "fallback"): ModelSpec,
    (RouterSpec, "fallback"): ModelSpec,
    (RouterSpec, "rules"): RuleSpec,
    (ToolsSpec, "mcp"): MCPSpec,
    (ToolsSpec, "openapi"): OpenAPISpec,
}
_MAPPINGS: dict[tuple[type[msgspec.Struct], str], type[msgspec.Struct]] = {
    (MCPSpec, "rules"): RulesSpec,
    (RouterSpec, "models"): ModelSpec,
}
_DURATIONS: dict[type[msgspec.Struct], tuple[str, ...]] = {
    InferenceSpec: ("timeout",),
    Policy: ("connect", "first_token", "stall", "total", "backoff", "backoff_limit"),
    Breaker: ("slow_call", "cool"),
    ToolsSpec: ("timeout",),
    CacheSpec: ("tool_result_ttl",),
    AnswersSpec: ("ttl",),
    RuleSpec: ("max_left",),
    MCPSpec: ("timeout",),
    OpenAPISpec: ("timeout",),
    RulesSpec: ("timeout", "ttl"),
    Budget: Budget.__struct_fields__,
}
_HIDDEN = "does not fit; its value comes from the environment and is not shown"
_UNITS = {"": 1.0, "_ms": 1e-3, "_seconds": 1.0}
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "array": "a list",
    "object": "keys with values",
    "null": "nothing",
}


class _Wrong(Exception):
    """A value is wrong: what to tell, where inside the value, and whether telling it shows the value itself."""

    def __init__(self, text: str, place: str = "", shows_value: bool = False) -> None:
        super().__init__(text)
        self.place = place
        self.shows_value = shows_value


def read_declaration(path: Path) -> AgentSpec:
    """Read a declaration; see `hotloop.config.spec.load_spec`."""
    faults = Faults(path)
    try:
        spec: AgentSpec = _Reader(faults, path.parent).section(Entry(1, parse(path)), AgentSpec)
    except RecursionError:
        raise ConfigError(f"An alias in {path} refers to itself.") from None
    faults.raise_any()
    return spec


class _Reader:
    """Reads mappings into Structs; notes what is wrong and reads on."""

    def __init__(self, faults: Faults, folder: Path) -> None:
        self._faults = faults
        self._folder = folder

    def section(self, section: Entry, cls: type[msgspec.Struct], where: str = "") -> Any:
        """The Struct that a mapping declares; None when something is wrong in it."""
        before = len(self._faults)
        given: dict[str, Any] = {}
        keys = entries(section.node, where, self._faults)
        if len(self._faults) > before and not keys:
            return None
        for key, entry in keys.items():
            path = under(where, key)
            field, unit = _field(cls, key)
            if not field:
                self._faults.add(entry.line, path, _unknown(cls, key))
            elif field in given:
                self._faults.add(entry.line, path, f"{field} is given twice, in different units")
            else:
                given[field] = self._value(cls, field, unit, entry, path)
        self._require(cls, given, section.line, where)
        return self._make(cls, given, section, where) if len(self._faults) == before else None

    def _sections(self, node: yaml.Node, cls: type[msgspec.Struct], line: int, where: str) -> tuple[Any, ...]:
        """The Structs that a list of mappings declares."""
        if not isinstance(node, yaml.SequenceNode):
            self._faults.add(line, where, "expected a list")
            return ()
        items = [Entry(line_of(item), item) for item in node.value]
        return tuple(self.section(item, cls, f"{where}[{place}]") for place, item in enumerate(items))

    def _require(self, cls: type[msgspec.Struct], given: dict[str, Any], line: int, where: str) -> None:
        for field in msgspec.structs.fields(cls):
            if field.required and field.name not in given:
                needs = "; it needs endpoint and model" if field.name in _SECTIONS else ""
                self._faults.add(line, under(where, field.name), f"is missing{needs}")

    def _make(self, cls: type[msgspec.Struct], given: dict[str, Any], section: Entry, where: str) -> Any:
        if cls is AgentSpec:
            given["folder"] = self._folder
        try:
            return cls(**given)
        except ConfigError as error:
            hidden = has_variable(section.node)
            self._faults.add(section.line, where, _HIDDEN if hidden else str(error))
            return None

    def _value(self, cls: type[msgspec.Struct], field: str, unit: str, entry: Entry, where: str) -> Any:
        node = entry.node
        if (section := _NESTED.get((cls, field))) is not None and not (cls is Policy and node.tag.endswith(":null")):
            return self.section(entry, section, where)
        if (item := _LISTS.get((cls, field))) is not None:
            return self._sections(node, item, entry.line, where)
        if (item := _MAPPINGS.get((cls, field))) is not None:
            named = entries(node, where, self._faults)
            return {name: self.section(each, item, under(where, name)) for name, each in named.items()}
        try:
            if field == "instructions":
                return _instructions(node, self._folder)
            return _leaf(cls, field, unit, node)
        except _Wrong as wrong:
            hidden = wrong.shows_value and has_variable(node)
            text = _HIDDEN if hidden else str(wrong)
            self._faults.add(_line_inside(node, wrong.place), where + wrong.place, text)
            return None


def _line_inside(node: yaml.Node, place: str) -> int:
    """The line of an item of a list, given its place as "[1]"; else that of the node."""
    index = re.match(r"\[(\d+)\]", place)
    return line_of(node.value[int(index[1])] if index else node)


def _instructions(node: yaml.Node, folder: Path) -> str:
    if not isinstance(node, yaml.MappingNode):
        return str(_leaf(AgentSpec, "instructions", "", node)).strip()
    keys = entries(node, "", Faults(folder))
    if keys.keys() != {"file"}:
        raise _Wrong("expected text, or the one key file with a path")
    path = _leaf(InferenceSpec, "model", "", keys["file"].node)
    try:
        return read_text(folder / path).strip()
    except ConfigError as error:
        raise _Wrong(str(error), ".file", shows_value=True) from None


def _leaf(cls: type[msgspec.Struct], field: str, unit: str, node: yaml.Node) -> Any:
    """The value of a field, from what its node can mean."""
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
            return _convert(cls, field, unit, meaning)
        except msgspec.ValidationError as error:
            wrong = _in_plain_words(error)
        except (ConfigError, ValueError) as error:
            wrong = _Wrong(str(error), shows_value=True)
    raise wrong


def _convert(cls: type[msgspec.Struct], field: str, unit: str, value: Any) -> Any:
    if value is not None and value != "learned" and field in _DURATIONS.get(cls, ()):
        value = _seconds(value, unit)
    types = {known.name: known.type for known in msgspec.structs.fields(cls)}
    value = msgspec.convert(value, types[field])
    of_model = issubclass(cls, ModelSpec)
    if of_model and field == "endpoint" and value != "local":
        parse_target(chat_url(value))
    if of_model and field == "dialect" and value is not None:
        dialect_of("", value)
    return value


def _seconds(value: Any, unit: str) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if unit and not number:
        raise ValueError(f"expected a number of {'milliseconds' if unit == '_ms' else 'seconds'}")
    if not number and not isinstance(value, str):
        raise ValueError("expected a time such as 600ms, 1.5s or 2m, or a number of seconds")
    return parse_duration(value) * _UNITS[unit]


def _in_plain_words(error: msgspec.ValidationError) -> _Wrong:
    text, _, place = str(error).partition(" - at `$")
    text = re.sub("`(.*?)`", lambda types: _words(types[1]), text)
    text = text[:1].lower() + text[1:]
    if re.fullmatch("expected text, got (?!nothing|a list|keys).*", text):
        text += "; put it in quotes"
    return _Wrong(text, place.removesuffix("`"))


def _words(types: str) -> str:
    names = [name for name in types.split(" | ") if name != "null"] or ["null"]
    return " or ".join(_WORDS.get(name, name) for name in names)


def _field(cls: type[msgspec.Struct], key: str) -> tuple[str, str]:
    """The field that a key sets and the unit that the key names; the field is "" for an unknown key."""
    if key in _keys(cls):
        return key, ""
    for unit in ("_ms", "_seconds"):
        if key.endswith(unit) and key.removesuffix(unit) in _DURATIONS.get(cls, ()):
            return key.removesuffix(unit), unit
    return "", ""


def _keys(cls: type[msgspec.Struct]) -> list[str]:
    return [name for name in cls.__struct_fields__ if name != "folder"]


def _unknown(cls: type[msgspec.Struct], key: str) -> str:
    known = _keys(cls)
    elsewhere = [under(name, key) for name, section in _SECTIONS.items() if _field(section, key)[0]]
    if elsewhere or key in _keys(AgentSpec):
        return f"unknown key here; did you mean {' or '.join(elsewhere) or key + ' at the top level'}?"
    if hint := did_you_mean(key, [*known, *_spelled_out(cls)]):
        return f"unknown key{hint}"
    return f"unknown key; there are {', '.join(known)}"


def _spelled_out(cls: type[msgspec.Struct]) -> list[str]:
    return [name + unit for name in _DURATIONS.get(cls, ()) for unit in _UNITS]
