"""Schemas in the part of JSON Schema that some services take."""

from __future__ import annotations

from typing import Any

import pytest

from hotloop.output.strict import strict

TEXT = {"type": "string"}


def closed(**properties: Any) -> dict[str, Any]:
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "object", "properties": {"a": TEXT}}, closed(a=TEXT)),
        (
            closed(a={"type": "string", "maxLength": 3, "default": "x", "pattern": "a"}),
            closed(a=TEXT | {"pattern": "a"}),
        ),
        (closed(a=TEXT | {"format": "duration"}), closed(a=TEXT | {"format": "duration"})),
        (closed(a=TEXT | {"format": "my own"}), closed(a=TEXT)),
        (closed(a={"oneOf": [TEXT, {"type": "null"}]}), closed(a={"anyOf": [TEXT, {"type": "null"}]})),
        (closed(a={"allOf": [TEXT], "description": "x"}), closed(a=TEXT | {"description": "x"})),
        (
            closed(a={"$ref": "#/$defs/A", "description": "x"})
            | {"$defs": {"A": {"type": "object", "properties": {}}}},
            closed(a={"$ref": "#/$defs/A"}) | {"$defs": {"A": closed()}},
        ),
        (closed(a={"enum": ["x", 1]}), closed(a={"enum": ["x", 1]})),
    ],
)
def test_what_can_be_said_is(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert strict(schema) == expected


@pytest.mark.parametrize(
    "part",
    [
        {},
        {"description": "anything"},
        {"type": "object"},
        {"type": ["object", "null"]},
        {"type": "object", "additionalProperties": TEXT},
        {"type": "object", "properties": {"a": TEXT}, "additionalProperties": TEXT},
        {"type": "array"},
        {"type": "array", "items": {}},
        {"type": "array", "items": False},
        {"type": "array", "prefixItems": [TEXT]},
        {"allOf": [TEXT, TEXT]},
        {"type": "string", "not": {"const": "a"}},
    ],
)
def test_what_is_left_open_cannot_be_said(part: dict[str, Any]) -> None:
    assert strict(closed(a=part)) is None
