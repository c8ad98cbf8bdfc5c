"""Tools that are not Python functions of ours: a name and a JSON Schema from elsewhere, and a function that calls it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Unpack

import msgspec

from hotloop.errors import ConfigError, ToolDefinitionError
from hotloop.tools.define import make_tool
from hotloop.tools.rules import ToolOptions
from hotloop.tools.tool import Tool


def foreign_tool(
    name: str,
    description: str,
    schema: dict[str, Any],
    call: Callable[..., Awaitable[Any]],
    **options: Unpack[ToolOptions],
) -> Tool:
    """A tool described by a JSON Schema; `call` gets the arguments by keyword once they fit it.

    Raises ToolDefinitionError for a schema that is none, ConfigError if the package that checks schemas is missing.
    """
    return make_tool(name, description, call, schema, _decoder(name, schema), **options)


def _decoder(name: str, schema: dict[str, Any]) -> Callable[[str | bytes], dict[str, Any]]:
    try:
        import jsonschema_rs
    except ModuleNotFoundError:
        raise ConfigError(
            f'The tool {name} brings a schema of its own, which needs one more package: pip install "hotloop[mcp]".'
        ) from None
    try:
        validator = jsonschema_rs.validator_for(schema)
    except jsonschema_rs.ValidationError as error:
        raise ToolDefinitionError(f"tool {name}: its schema is no JSON Schema: {error.message}") from None

    def decode(text: str | bytes) -> dict[str, Any]:
        arguments = msgspec.json.decode(text)
        for fault in validator.iter_errors(arguments):
            place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault.instance_path)
            raise ValueError(f"{fault.message} - at `${place}`")
        if not isinstance(arguments, dict):
            raise ValueError("expected an object")
        return arguments

    return decode
