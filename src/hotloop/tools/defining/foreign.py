"""Tools that are no Python functions of ours: a name and a JSON Schema from elsewhere, and a function that calls it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable
from typing import Any, Unpack

import msgspec

from hotloop.errors import ConfigError, ToolDefinitionError
from hotloop.tools.defining.define import make_tool
from hotloop.tools.defining.minimal import Schema, minimal
from hotloop.tools.defining.rules import ToolOptions
from hotloop.tools.defining.tool import Tool
from hotloop.tools.paths import write_path

LONGEST_NAME = 64  # characters of a name that services take

_REFUSED = re.compile(r"[^a-zA-Z0-9_-]+")
_DIGITS = 8


class ForeignRules(ToolOptions, total=False):
    """Options of `tool` for a tool from elsewhere, with the name and the description that models shall see instead."""

    name: str
    description: str


def foreign_tool(
    name: str,
    description: str,
    schema: Schema,
    call: Callable[..., Awaitable[Any]],
    **options: Unpack[ToolOptions],
) -> Tool:
    """A tool described by a JSON Schema; `call` gets the arguments by keyword once they fit it.

    The model is shown the schema without what says nothing to it. References lead only to places inside the schema:
    nothing is fetched. Raises ToolDefinitionError for a schema that is none, or options that do not fit it; ConfigError
    if the package that checks schemas is missing.
    """
    try:
        _check_text(name=name, description=description)
        decode = _decoder(name, schema)
        tool = make_tool(name, description, call, _shown(schema), decode, **options)
        _check_templates(tool, schema.get("required", ()))
    except ToolDefinitionError as error:
        raise ToolDefinitionError(f"tool {name}: {error}") from error.__cause__
    return tool


def plain_name(name: str) -> str:
    """The name with `_` for the characters that services refuse."""
    return _REFUSED.sub("_", name)


def is_readable(name: str) -> bool:
    """Whether something of its meaning is left in `plain_name`, and nothing lost: 查询_x would become __x."""
    meaning = [char for char in name if char.isalnum()]
    return bool(meaning) and all(map(str.isascii, meaning))


def with_hash(plain: str, whole: str) -> str:
    """The plain name, cut if need be, with a hash of the `whole` name that tells it from others that look the same."""
    digest = hashlib.sha256(whole.encode()).hexdigest()[:_DIGITS]
    kept = re.sub("_{2,}", "_", plain)[: LONGEST_NAME - _DIGITS - 1].strip("_")
    return f"{kept}_{digest}"


def naming(name: str, description: str) -> str:
    """The description, beginning with the name that the tool has where it comes from."""
    return description if description.startswith(name) else f"{name}: {description}".removesuffix(": ")


def _check_text(**texts: object) -> None:
    for option, text in texts.items():
        if not isinstance(text, str):
            raise ToolDefinitionError(f"{option}={text!r}; give text")


def _decoder(name: str, schema: Schema) -> Callable[[str | bytes], dict[str, Any]]:
    try:
        import jsonschema_rs
    except ModuleNotFoundError:
        raise ConfigError(
            f"The tool {name} brings a schema of its own, and jsonschema-rs, which checks arguments against it, is not "
            'installed: pip install "hotloop[mcp]", or "hotloop[openapi]".'
        ) from None
    try:
        validator = jsonschema_rs.validator_for(schema, offline=True, mask="the value")
    except ValueError as error:
        reason = error.message if isinstance(error, jsonschema_rs.ValidationError) else error
        raise ToolDefinitionError(f"its schema is no JSON Schema: {reason}") from error

    def decode(text: str | bytes) -> dict[str, Any]:
        arguments = msgspec.json.decode(text)
        for fault in validator.iter_errors(arguments):
            raise ValueError(f"{fault.message} - at `${write_path(tuple(fault.instance_path))}`")
        if not isinstance(arguments, dict):
            raise ValueError("expected an object")
        return arguments

    return decode


def _shown(schema: Schema) -> Schema:
    """What the model reads of it; services want an object's properties even if there are none."""
    return {"type": "object", "properties": {}} | minimal(schema)


def _check_templates(tool: Tool, required: list[str]) -> None:
    """A schema's defaults are filled in where the call goes, so here only what it requires is sure to be there."""
    status = () if tool.status is None else (tool.status,)
    for template in (*status, *tool.reads, *tool.writes, *tool.invalidates):
        for field in template.fields:
            if field not in required:
                raise ToolDefinitionError(f"{template.text!r} names {field}, which a call may leave out")
