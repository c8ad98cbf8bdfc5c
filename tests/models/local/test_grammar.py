"""Constrained decoding: whatever the model would like to write, the arguments meet the schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jsonschema
import msgspec
import pytest

from hotloop.models.local import grammar
from hotloop.models.local.request import Function

Ask = Callable[..., Any]

SCHEMAS: dict[str, dict[str, Any]] = {
    "pattern": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"},
    "open pattern": {"type": "string", "pattern": "[0-9]{2}", "maxLength": 12},
    "pattern and length": {"type": "string", "pattern": "^[a-c]+$", "minLength": 3, "maxLength": 5},
    "enum": {"enum": ["red", "blue", 'a "quoted" one', "绿色"]},
    "mixed enum": {"enum": [1, "one", None, True]},
    "const": {"const": "exactly this"},
    "free string": {"type": "string"},
    "short string": {"type": "string", "minLength": 2, "maxLength": 8},
    "date": {"type": "string", "format": "date"},
    "unknown format": {"type": "string", "format": "order-number"},
    "long string": {"type": "string", "minLength": 80, "maxLength": 90},
    "tagged oneOf": {"oneOf": [{"type": "object", "properties": {"k": {"const": k}}, "required": ["k"]} for k in "ab"]},
    "enough keys": {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"], "minProperties": 1},
    "integer": {"type": "integer"},
    "bounded integer": {"type": "integer", "minimum": -3, "maximum": 12},
    "exclusive integer": {"type": "integer", "exclusiveMinimum": 7, "exclusiveMaximum": 9},
    "multiple": {"type": "integer", "minimum": 0, "maximum": 1000, "multipleOf": 25},
    "number": {"type": "number"},
    "bounded number": {"type": "number", "minimum": 0.5, "maximum": 1.25},
    "boolean": {"type": "boolean"},
    "nullable": {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 9}, {"type": "null"}]},
    "types": {"type": ["integer", "null"], "minimum": 1, "maximum": 3},
    "optional string": {"type": ["string", "null"]},
    "patterns": {"type": "string", "anyOf": [{"pattern": "^a+$"}, {"pattern": "^[0-9]+$"}]},
    "both": {"allOf": [{"type": "string"}, {"pattern": "^[ab]+$"}, {"maxLength": 9}]},
    "joined": {"$ref": "#/$defs/Word", "maxLength": 4},
    "both arrays": {"allOf": [{"type": "array", "items": {"enum": ["a", "b"]}}, {"minItems": 2}]},
    "array": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "minItems": 1, "maxItems": 3},
    "tuple": {"type": "array", "prefixItems": [{"type": "boolean"}, {"const": 7}], "items": False, "minItems": 2},
    "nested": {
        "type": "object",
        "properties": {
            "at": {
                "type": "object",
                "properties": {"row": {"type": "integer", "minimum": 1, "maximum": 9}},
                "required": ["row"],
            },
            "kind": {"enum": ["x", "y"]},
        },
        "required": ["at", "kind"],
    },
    "optional": {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"enum": ["x"]}}, "required": ["b"]},
    "tagged": {
        "anyOf": [
            {"type": "object", "properties": {"kind": {"const": "card"}}, "required": ["kind"]},
            {
                "type": "object",
                "properties": {"kind": {"const": "cash"}, "coins": {"type": "integer", "minimum": 0, "maximum": 9}},
                "required": ["kind", "coins"],
            },
        ]
    },
    "reference": {"$ref": "#/$defs/Side"},
}
DEFINITIONS = {
    "Side": {"type": "string", "pattern": "^(left|right)$"},
    "Word": {"type": "string", "pattern": "^[a-z]+$"},
}
PROMPTS = ["Use the thing for order 20250101, please", "用一下 thing，谢谢", "THING! -1"]


def offered(schema: dict[str, Any]) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {"value": schema, "loud": {"type": "boolean"}},
        "required": ["value"],
        "$defs": DEFINITIONS,
    }
    return {
        "type": "function",
        "function": {"name": "use_thing", "description": "The thing.", "parameters": parameters},
    }


@pytest.mark.parametrize("kind", SCHEMAS)
async def test_arguments_meet_their_schema(ask: Ask, kind: str) -> None:
    """Three calls each, 99 in all, most of them at a temperature at which this model writes nonsense."""
    tool = offered(SCHEMAS[kind])
    for step, prompt in enumerate(PROMPTS):
        reply = await ask(prompt, tools=[tool], temperature=0.8 * step)
        assert reply.status == 200, reply.body
        [(name, arguments)] = reply.calls
        assert name == "use_thing"
        jsonschema.validate(arguments, tool["function"]["parameters"])
        assert set(arguments) <= {"value", "loud"}


async def test_free_strings_are_words_of_the_user(ask: Ask, make_offer: Callable[..., Any]) -> None:
    tools = [make_offer("search_flights", "Flights between cities.", origin={"type": "string"}, to={"type": "string"})]
    reply = await ask("Find flights from Oslo to Rome", tools=tools)
    assert reply.calls == [("search_flights", {"origin": "Oslo", "to": "Rome"})]


async def test_several_calls_are_each_held_to_their_own_schema(ask: Ask, make_offer: Callable[..., Any]) -> None:
    tools = [
        make_offer("weather", "Weather in a city.", city={"enum": ["Oslo", "Rome"]}),
        make_offer("hotel", "Book a hotel.", nights={"type": "integer", "minimum": 1, "maximum": 9}),
    ]
    reply = await ask("The weather in Rome, and a hotel for 3 nights", tools=tools)
    assert reply.calls == [("weather", {"city": "Rome"}), ("hotel", {"nights": 3})]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "(?=x)y"},
        {"type": "string", "pattern": r"(a)\1"},
        {"type": "string", "pattern": r"\Aabc\Z"},
        {"type": "integer", "minimum": 5, "maximum": 3},
        {"type": "boolean", "enum": ["yes", "no"]},
        {"oneOf": [{"type": "integer", "maximum": 5}, {"type": "integer", "minimum": 3}]},
        {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True},
        {"type": "array", "contains": {"const": 1}},
        {"type": "object", "minProperties": 1},
        {"type": "object", "propertyNames": {"pattern": "^x"}},
        {"type": "object", "properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]}},
        {"type": "string", "not": {"const": "a"}},
    ],
)
async def test_what_cannot_be_held_is_refused_and_never_decoded_freely(ask: Ask, schema: dict[str, Any]) -> None:
    reply = await ask("thing", tools=[offered(schema)])
    assert reply.status == 400
    assert "use_thing" in reply.error["message"]


def rule(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema to which the arguments are held."""
    return msgspec.json.decode(grammar.calls([Function("f", "", schema)], said=["one", "two words"]).split("%json ")[1])


PATTERN = {"pattern": "x+"}
ARRAY = {"type": "array", "items": {"const": 1}}
CODE = {"type": "string", **PATTERN}


@pytest.mark.parametrize("wrap", ["allOf", "anyOf", "oneOf"])
def test_the_parts_of_a_schema_get_an_end_as_well(wrap: str) -> None:
    [array, code, part] = rule({wrap: [ARRAY, CODE, PATTERN]})[wrap]
    assert (array["maxItems"], code["maxLength"], part["maxLength"]) == (16, 256, 256)
    [deep] = rule({"type": "object", "properties": {"a": {wrap: [{"not": ARRAY, "items": CODE}]}}})["properties"]["a"][
        wrap
    ]
    assert deep == {"not": ARRAY, "items": CODE | {"maxLength": 256}, "maxItems": 16}


@pytest.mark.parametrize("key", ["$defs", "definitions", "patternProperties"])
def test_named_schemas_get_an_end_whatever_their_names(key: str) -> None:
    named = rule({"type": "object", key: {"enum": ARRAY, "pattern": CODE, "items": {"anyOf": [CODE]}}})[key]
    assert (named["enum"]["maxItems"], named["pattern"]["maxLength"]) == (16, 256)
    assert named["items"]["anyOf"][0]["maxLength"] == 256


def test_where_schemas_are_joined_none_decides_alone() -> None:
    """Keys that one of them does not know may be another's, and a string may have to be more than words."""
    part = {"type": "object", "properties": {"a": {"const": 1}}}
    assert rule({"allOf": [part, part]})["allOf"] == [part, part]
    assert "additionalProperties" not in rule(part | {"anyOf": [{"required": ["b"]}]})
    assert rule({"type": "string", "anyOf": [PATTERN]}) | {"x-guidance": 0} == {
        "type": "string",
        "maxLength": 256,
        "anyOf": [PATTERN | {"maxLength": 256}],
        "x-guidance": 0,
    }
    choice = {"anyOf": [part, {"type": "null"}], "description": "alone"}
    assert rule(choice)["anyOf"][0] == part | {"additionalProperties": False}


def test_words_are_one_kind_among_others() -> None:
    count = {"type": ["integer"], "minimum": 1, "maximum": 10**18}
    optional = rule({"type": ["string", "integer"], "minimum": 1})
    assert optional["anyOf"] == [{"enum": ["one", "two words"]}, count]
    assert rule({"type": ["string", "null"], "minLength": 99})["anyOf"][0]["maxLength"] == 99


def test_everything_that_could_go_on_for_ever_gets_an_end() -> None:
    schema = {
        "type": "object",
        "properties": {
            "count": {"type": "integer", "minimum": 0},
            "price": {"anyOf": [{"type": "number"}, {"type": "null"}]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "code": {"type": "string", "pattern": "x+"},
            "kind": {"type": "string", "enum": ["a"]},
        },
    }
    bounded = rule(schema)
    assert bounded["additionalProperties"] is False
    assert bounded["properties"] == {
        "count": {"type": "integer", "minimum": 0, "maximum": 10**18},
        "price": {
            "anyOf": [
                {"type": "number", "multipleOf": 0.000001, "minimum": -(10**12), "maximum": 10**12},
                {"type": "null"},
            ]
        },
        "tags": {"type": "array", "items": {"enum": ["one", "two words"]}, "maxItems": 16},
        "code": {"type": "string", "pattern": "x+", "maxLength": 256},
        "kind": {"type": "string", "enum": ["a"]},
    }
