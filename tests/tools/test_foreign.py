"""Tools made of a JSON Schema: what fits gets through, what does not is told, and the model reads little."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from hotloop.errors import ArgumentsError, ConfigError, ToolDefinitionError
from hotloop.tools.defining.foreign import foreign_tool

SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Search",
    "type": "object",
    "properties": {
        "title": {"title": "Title", "type": "string", "pattern": "^[a-z]+$"},
        "most": {"type": "integer", "default": 5, "maximum": 20},
        "tags": {"type": "array", "items": {"enum": ["new", "old"]}},
    },
    "required": ["title"],
    "additionalProperties": False,
}


async def call(**arguments: Any) -> dict[str, Any]:
    return arguments


def shown(schema: dict[str, Any]) -> dict[str, Any]:
    definition = json.loads(foreign_tool("search", "", schema, call).definition)
    return definition["function"]["parameters"]


async def test_arguments_that_fit_get_through_as_they_are():
    tool = foreign_tool("search", "Search.", SCHEMA, call)
    for text in ('{"title":"a"}', '{"title":"a","most":3.0,"tags":["new"]}'):
        assert await tool.function(**tool.bind(text)) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", '"title" is a required property - at `$`'),
        ('{"title":"A1"}', 'the value does not match "^[a-z]+$" - at `$.title`'),
        ('{"title":"a","most":21}', "the value is greater than the maximum of 20 - at `$.most`"),
        ('{"title":"a","tags":["new","odd"]}', "- at `$.tags[1]`"),
        ('{"title":"a","other":1}', "'other' was unexpected"),
        ('["a"]', 'the value is not of type "object"'),
        ('{"title":', "Input data was truncated"),
    ],
)
def test_arguments_that_do_not_fit_are_told(text, words):
    with pytest.raises(ArgumentsError) as error:
        foreign_tool("search", "Search.", SCHEMA, call).bind(text)
    assert words in str(error.value)


def test_a_schema_that_takes_anything_takes_objects():
    with pytest.raises(ArgumentsError, match="expected an object"):
        foreign_tool("search", "", {}, call).bind("[1]")


def test_the_model_reads_no_titles_and_no_dialect():
    properties = {"title": {"type": "string", "pattern": "^[a-z]+$"}} | {
        name: SCHEMA["properties"][name] for name in ("most", "tags")
    }
    assert shown(SCHEMA) == {
        "type": "object",
        "properties": properties,
        "required": ["title"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"type": "object", "properties": {}}])
def test_services_get_properties_even_if_there_are_none(schema):
    assert shown(schema) == {"type": "object", "properties": {}}


def test_parts_that_are_true_or_false():
    schema = {"type": "object", "properties": {"a": True, "b": False}}
    assert shown(schema) == schema
    assert foreign_tool("search", "", schema, call).bind('{"a":[1]}') == {"a": [1]}


@pytest.mark.parametrize(
    ("schema", "options", "words"),
    [
        ({"type": "thing"}, {}, "tool search: its schema is no JSON Schema"),
        ({"$ref": "http://127.0.0.1:9/x"}, {}, "Retrieval is disabled"),
        ({"$ref": "file:///etc/hostname"}, {}, "Retrieval is disabled"),
        (SCHEMA, {"status": "at most {most}"}, "tool search: 'at most {most}' names most, which a call may leave out"),
        (SCHEMA, {"reads": ["{most}"], "read_only": True}, "names most, which a call may leave out"),
        (SCHEMA, {"ttl": 3}, "tool search: ttl keeps results"),
    ],
)
def test_what_cannot_become_a_tool(schema, options, words):
    with pytest.raises(ToolDefinitionError) as error:
        foreign_tool("search", "Search.", schema, call, **options)
    assert words in str(error.value)


def test_the_package_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with pytest.raises(ConfigError, match="pip install"):
        foreign_tool("search", "Search.", SCHEMA, call)


def test_schemas_inside_may_be_true_or_false():
    properties = {"x": True, "y": {"anyOf": [True, {"type": "string"}]}, "z": {"type": "array", "items": False}}

    async def take(**arguments) -> dict:
        return arguments

    told = foreign_tool("take", "Take it.", {"type": "object", "properties": properties}, take)
    assert json.loads(told.definition)["function"]["parameters"]["properties"] == properties
