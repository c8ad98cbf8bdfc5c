import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from hotloop.lab.example import CannotExemplify, example
from hotloop.tools.defining.define import tool


def check(schema: dict, text: str = "") -> Any:
    """An example of the schema, after a referee has found it valid."""
    made = example(schema, text)
    jsonschema.Draft202012Validator(schema).validate(made)
    return made


@st.composite
def numbers(draw, kind):
    low = draw(st.none() | st.integers(-10_000, 10_000))
    high = draw(st.none() | st.integers(0, 10_000).map(lambda width: (low or 0) + width))
    fields = {"minimum": low, "maximum": high}
    return {"type": kind} | {key: value for key, value in fields.items() if value is not None}


@st.composite
def strings(draw):
    shortest = draw(st.integers(0, 30))
    longest = draw(st.none() | st.integers(shortest, 60))
    return {"type": "string", "minLength": shortest} | ({} if longest is None else {"maxLength": longest})


LEAVES = st.one_of(
    strings(),
    numbers("integer"),
    numbers("number"),
    st.just({"type": "string", "pattern": "^[0-9]{8}$", "examples": ["00000000"]}),
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.lists(st.integers() | st.text(), min_size=1).map(lambda options: {"enum": options}),
    st.text().map(lambda value: {"const": value}),
)


def nested(inner):
    names = st.text(st.characters(codec="ascii", categories=["L"]), min_size=1)
    objects = st.dictionaries(names, inner, max_size=4).flatmap(
        lambda properties: st.sets(st.sampled_from(sorted(properties)) if properties else st.nothing()).map(
            lambda required: {"type": "object", "properties": properties, "required": sorted(required)}
        )
    )
    arrays = st.tuples(inner, st.integers(0, 3)).map(
        lambda pair: {"type": "array", "items": pair[0], "minItems": pair[1]}
    )
    maps = inner.map(lambda schema: {"type": "object", "additionalProperties": schema})
    unions = st.lists(LEAVES | arrays, min_size=1, max_size=3).map(lambda options: {"anyOf": options})
    return objects | arrays | maps | unions


SCHEMAS = st.recursive(LEAVES, nested, max_leaves=6)


@given(SCHEMAS, st.text())
def test_an_example_satisfies_its_schema(schema, text):
    check(schema, text)


@given(SCHEMAS)
def test_words_that_people_say_do_not_make_it_wrong(schema):
    check(schema, "Order 1024 of Li Lei, id u-7788, from 2025-01-07 to Paris: 3.5 kg or -2, see https://x.org/a")


@dataclass
class Line:
    item: Annotated[str, Meta(min_length=6)]
    count: Annotated[int, Meta(gt=0, lt=100)]


class Order(msgspec.Struct):
    id: Annotated[str, Meta(pattern="^[0-9]{8}$")]
    lines: Annotated[list[Line], Meta(min_length=2)]
    level: Literal["gold", "silver"]
    weight: Annotated[float, Meta(gt=0, le=0.5)] | None
    tags: dict[str, int]


@tool
def send(order: Order, note: str = "") -> str:
    """Send an order."""
    return order.id


def test_the_schemas_of_our_own_tools_are_plain_enough():
    made = check(send.parameters, "Send order 20250101")
    assert send(**msgspec.convert(made, dict[str, Order])) == "20250101"


STRING = {"type": "string"}


def arguments(text: str, **properties) -> dict:
    return check({"type": "object", "properties": properties, "required": list(properties)}, text)


def test_words_of_the_user_are_used():
    assert arguments("Where is my order 1024?", order_id=STRING) == {"order_id": "1024"}
    assert arguments("Add -3 and 4.5", a={"type": "integer"}, b={"type": "number", "minimum": 0}) == {"a": -3, "b": 4.5}
    assert arguments("make it GOLD", level={"enum": ["silver", "gold"]}) == {"level": "gold"}
    assert arguments("mail li@x.org!", to={"type": "string", "pattern": "@"}) == {"to": "li@x.org"}


def test_words_that_do_not_fit_are_not_used():
    few = {"type": "integer", "maximum": 99}
    short = {"type": "string", "maxLength": 4}
    assert arguments("Where is my order 20250101?", count=few, word=short) == {"count": 1, "word": "text"}


def test_words_are_found_among_chinese():
    eight = {"type": "string", "pattern": "^[0-9]{8}$"}
    assert arguments("查询订单20250101的状态，同时查一下物流信息", order_id=eight) == {"order_id": "20250101"}


def test_examples_and_defaults_come_before_plain_values():
    assert example({"type": "string", "examples": ["Rome"]}) == "Rome"
    assert example({"type": "string", "format": "date", "default": "2025-01-07"}, "on 2024-12-24") == "2025-01-07"
    assert example({"type": "integer", "default": 7}) == 7
    assert example({"type": "integer", "maximum": 5, "default": 7}) == 1


def test_exclusive_bounds_of_floats():
    check({"type": "number", "exclusiveMinimum": 0.1, "exclusiveMaximum": 0.1000001})
    check({"type": "number", "exclusiveMinimum": 1e20})


def test_an_option_that_is_not_known_gives_way_to_one_that_is():
    assert example({"anyOf": [{"$ref": "#/$defs/Address"}, {"type": "null"}]}) is None
    assert example({"type": ["integer", "null"]}) == 1


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "string", "pattern": "^[A-Z]{3}$"},
        {"type": "string", "pattern": r"^\p{L}$"},
        {"type": "string", "format": "uuid"},
        {"type": "integer", "minimum": 5, "maximum": 4},
        {"$ref": "#/$defs/Order"},
        {"allOf": [{"type": "integer"}]},
        {"type": "array", "items": {"const": 1}, "minItems": 2, "uniqueItems": True},
        {"type": "array", "prefixItems": [{"type": "integer"}], "minItems": 1},
        {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1},
    ],
    ids=json.dumps,
)
def test_what_needs_a_script_is_said(schema):
    with pytest.raises(CannotExemplify, match=r"'x'.*; give a script of replies\.$"):
        arguments("hello", x=schema)
