"""A script of replies in a file: YAML or JSON, and on which line it is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import yaml

from hotloop.config.nodes import line_of
from hotloop.errors import ConfigError
from hotloop.fields import in_plain_words
from hotloop.files import read_text
from hotloop.lab.script import Reply, call, say


class _FileCall(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, Any] = {}


class _FileReply(msgspec.Struct, forbid_unknown_fields=True):
    text: str = ""
    calls: list[_FileCall] = []
    usage: dict[str, Any] | None = None

    def reply(self) -> Reply:
        return say(self.text, *(call(each.name, **each.arguments) for each in self.calls), usage=self.usage)


def read_script(path: Path) -> list[Reply]:
    """The replies in a file; see `hotloop.lab.script.load_script`."""
    text = read_text(path)
    entries = _json_entries(path, text) if path.suffix == ".json" else _yaml_entries(path, text)
    if not entries:
        raise ConfigError(f"The script {path} has no replies.")
    return [_reply(place, value) for place, value in entries]


def _json_entries(path: Path, text: str) -> list[tuple[str, Any]]:
    """The items of the file's list, each after the place that is named if it is wrong."""
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}:{error.lineno}: not valid JSON: {error.msg}.") from None
    if not isinstance(values, list):
        raise _no_list(path)
    return [(f"{path}: reply {number}", value) for number, value in enumerate(values, 1)]


def _yaml_entries(path: Path, text: str) -> list[tuple[str, Any]]:
    """The same of YAML, which knows the lines."""
    try:
        root = yaml.compose(text, yaml.SafeLoader)
        if root is not None and not isinstance(root, yaml.SequenceNode):
            raise _no_list(path)
        items = root.value if root else []
        return [(f"{path}:{line_of(item)}", _value(item)) for item in items]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = ", ".join(filter(None, (error.context, error.problem)))
        raise ConfigError(f"{path}:{mark.line + 1 if mark else 1}: not valid YAML: {what}.") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"The file {path} is not YAML: {str(error).splitlines()[0]}.") from None


def _value(node: yaml.Node) -> Any:
    return yaml.constructor.SafeConstructor().construct_object(node, deep=True)


def _no_list(path: Path) -> ConfigError:
    return ConfigError(f"The script {path} has to be a list of replies: texts, or keys text, calls and usage.")


def _reply(place: str, value: Any) -> Reply:
    if isinstance(value, str):
        return Reply(value)
    if not isinstance(value, dict):
        kind = type(value).__name__
        raise ConfigError(f"{place}: a reply is a text, or has keys text, calls and usage; this is of type {kind}.")
    try:
        return msgspec.convert(value, _FileReply).reply()
    except (msgspec.MsgspecError, TypeError) as error:
        what, where = in_plain_words(error)
        raise ConfigError(f"{place}: {where}: {what}." if where else f"{place}: {what}.") from None
