"""The arguments of a step, with results of others in the places of its references."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hotloop.errors import ToolError
from hotloop.tools.defining.tool import Tool
from hotloop.tools.plan.plan import Step
from hotloop.tools.plan.references import is_reference, parse_reference, resolve, value_of
from hotloop.tools.running.result import ToolResult


def fill_in(step: Step, results: Mapping[str, ToolResult], tool: Tool) -> str:
    """The step's arguments as JSON text. Raises ToolError for a reference that leads nowhere or to a failed step."""
    values: dict[str, Any] = {}
    for name, result in results.items():
        values[name] = ToolError(result.failed) if result.failed else value_of(result.content)
    arguments = {
        name: _whole_text(value, results) if _takes_text(tool, name) else value
        for name, value in step.arguments.items()
    }
    return msgspec.json.encode(resolve(arguments, values)).decode()


def _takes_text(tool: Tool, parameter: str) -> bool:
    schema = tool.parameters.get("properties", {}).get(parameter)
    return isinstance(schema, dict) and schema.get("type") == "string"


def _whole_text(value: Any, results: Mapping[str, ToolResult]) -> Any:
    """A result that a parameter takes whole, as text: an order number that a tool gave is none of JSON's numbers."""
    if not is_reference(value):
        return value
    reference = parse_reference(value["$ref"])
    result = results.get(reference.step)
    if reference.path or result is None or result.failed or isinstance(value_of(result.content), dict | list):
        return value
    return result.content
