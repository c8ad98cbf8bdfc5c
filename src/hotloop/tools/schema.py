"""What the model is told about a tool's arguments: a minimal JSON Schema made from types."""

from __future__ import annotations

from typing import Any

import msgspec


def arguments_schema(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of a tool's arguments, given the Struct that decodes them."""
    schema = msgspec.json.schema(arguments)
    schema.pop("$ref")
    (name, body), *_ = schema.pop("$defs").items()
    return {key: body[key] for key in ("type", "properties", "required", "additionalProperties") if body.get(key) or key == "properties"} | {"additionalProperties": False}
