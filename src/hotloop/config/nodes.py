"""What a configuration file says and on which line: YAML (or JSON) as nodes, environment variables filled in."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from hotloop.errors import ConfigError
from hotloop.files import read_text

_VARIABLE = re.compile(r"\$(\$\{)|\$\{(\w+)(?::-([^}]*))?\}|\$\{")
_PAIR = re.compile(r"\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}", re.IGNORECASE)


class _Loader(yaml.SafeLoader):
    """YAML as PyYAML reads it, except that 1e-3 is a number, as it is in JSON."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+"), list("-+0123456789")
)


class Entry(NamedTuple):
    """One key of a mapping: the line it is on, from 1, and its value."""

    line: int
    node: yaml.Node


class Faults:
    """Everything that is wrong with one file, so that it can be told at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: list[tuple[int, str]] = []

    def add(self, line: int, where: str, what: str) -> None:
        """Note that the value at the key path `where` ("" for the whole) is wrong."""
        self._found.append((line, f"{self._path}:{line}: {where}: {what}" if where else f"{self._path}:{line}: {what}"))

    def __len__(self) -> int:
        return len(self._found)

    def raise_any(self) -> None:
        """Raise ConfigError with a line for each fault, in the order of the file, if there is any."""
        if self._found:
            raise ConfigError("\n".join(text for _, text in sorted(self._found, key=lambda fault: fault[0])))


def parse(path: Path) -> yaml.Node:
    """The file's one document. Raises ConfigError, with the line, for text that is neither YAML nor JSON."""
    try:
        node = yaml.compose(_as_yaml(read_text(path)), _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ConfigError(f"{path}:{mark.line + 1 if mark else 1}: {_syntax(error)}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"The file {path} is not YAML: {' '.join(str(error).split())}.") from None
    if node is None:
        raise ConfigError(f"The file {path} is empty; it needs at least inference.endpoint and inference.model.")
    return node


def entries(node: yaml.Node, where: str, faults: Faults) -> dict[str, Entry]:
    """The keys of a mapping; an empty value counts as a mapping without keys. A key given twice is a fault."""
    found: dict[str, Entry] = {}
    if is_null(node):
        return found
    if not isinstance(node, yaml.MappingNode):
        kind = "a list" if isinstance(node, yaml.SequenceNode) else "one value"
        faults.add(line_of(node), where, f"expected keys with values, got {kind}")
        return found
    for key, value in node.value:
        name = str(key.value) if isinstance(key, yaml.ScalarNode) else "?"
        if name in found:
            faults.add(line_of(key), under(where, name), f"is given twice, first on line {found[name].line}")
        found[name] = Entry(line_of(key), value)
    return found


def items(entry: Entry, where: str, faults: Faults) -> list[Entry]:
    """The items of a list; an empty value counts as an empty list."""
    node = entry.node
    if isinstance(node, yaml.SequenceNode):
        return [Entry(line_of(item), item) for item in node.value]
    if not is_null(node):
        kind = "keys with values" if isinstance(node, yaml.MappingNode) else "one value"
        faults.add(entry.line, where, f"expected a list, got {kind}")
    return []


def is_null(node: yaml.Node) -> bool:
    """Whether there is no value."""
    return str(node.tag).endswith(":null")


def line_of(node: yaml.Node) -> int:
    """The line a node begins on, from 1."""
    return int(node.start_mark.line) + 1


def has_variable(node: yaml.Node) -> bool:
    """Whether any part of the value comes from the environment, and so must not be shown."""
    if isinstance(node, yaml.ScalarNode):
        return any(found[2] for found in _VARIABLE.finditer(node.value))
    return any(map(has_variable, _parts(node)))


def readings(node: yaml.Node) -> list[Any]:
    """The Python values that a node can mean, the likeliest first.

    There is more than one only where text from the environment may also be a number: `${MAX_TOKENS}`. Raises
    LookupError with the name of an environment variable that is not set, ValueError for what YAML allows and a
    declaration does not.
    """
    if isinstance(node, yaml.SequenceNode):
        return [[readings(item)[0] for item in node.value]]
    if isinstance(node, yaml.MappingNode):
        return [{readings(key)[0]: readings(value)[0] for key, value in node.value}]
    if not isinstance(node, yaml.ScalarNode) or "${" not in node.value:
        return [_construct(node)]
    text = _fill_in(node.value)
    return [text, *_reread(text)] if node.style is None and has_variable(node) else [text]


def _fill_in(text: str) -> str:
    """Put in the values of `${NAME}` and `${NAME:-default}`; `$${` stands for a `${` that is meant."""

    def value(found: re.Match[str]) -> str:
        escaped, name, default = found.groups()
        if not escaped and not name:
            raise ValueError("a ${ is neither ${NAME} nor ${NAME:-default}; write $${ for a ${ that is meant")
        known = "${" if escaped else os.environ.get(name) or default or os.environ.get(name, default)
        if known is None:
            raise LookupError(name)
        return known

    return _VARIABLE.sub(value, text)


def _construct(node: yaml.Node) -> Any:
    try:
        return yaml.constructor.SafeConstructor().construct_object(node, deep=True)
    except yaml.MarkedYAMLError as error:
        raise ValueError(str(error.problem)) from None


def _reread(text: str) -> list[Any]:
    tag = _Loader("").resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    try:
        return [] if tag.endswith(":str") else [_construct(yaml.ScalarNode(tag, text))]
    except ValueError:
        return []


def _as_yaml(text: str) -> str:
    """JSON so that YAML reads it the same: no tabs between its tokens, a character beyond 16 bits as itself."""
    try:
        json.loads(text)
    except ValueError:
        return text
    return _PAIR.sub(lambda escapes: str(json.loads(f'"{escapes[0]}"')), text.replace("\t", " "))


def _syntax(error: yaml.MarkedYAMLError) -> str:
    if "'\\t'" in str(error.problem):
        return "a tab stands where YAML wants spaces; indent with spaces"
    return f"not valid YAML: {', '.join(filter(None, (error.context, error.problem)))}"


def _parts(node: yaml.Node) -> list[yaml.Node]:
    return [part for item in node.value for part in (item if isinstance(node, yaml.MappingNode) else (item,))]


def under(where: str, key: str) -> str:
    """The key path of a key."""
    return f"{where}.{key}" if where else key
