import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta
from pydantic import BaseModel, Field

from hotloop.lab.example import example
from hotloop.lab.leaf import CannotExemplify


def check(schema: dict, text: str = "") -> Any:
    """An example of the schema, after a referee has found it valid."""
    made = example(schema, text)
    jsonschema.Draft202012Validator(schema).validate(made)
    return made


PATTERNS = [
    r"^[0-9]{8}$",
    r"^[A-Z]{3}-\d{2,}(a|b)?$",
    r"[^a-z\s]+",
    r"^(ab|cd)+\.x*$",
    r"^\w+@\w+\.(com|org)$",
    r"^.{3,5}$",
]


@st.composite
def numbers(draw, kind):
    low = draw(st.none() | st.integers(-10_000, 10_000))
    high = draw(st.none() | st.integers(0, 10_000).map(lambda width: (low or 0) + width))
    step = draw(st.none() | st.integers(1, 7)) if high is None or low is None or high - low >= 7 else None
    fields = {"minimum": low, "maximum": high, "multipleOf": step}
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
    st.sampled_from(PATTERNS).map(lambda pattern: {"type": "string", "pattern": pattern}),
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.just({}),
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
    maps = st.tuples(inner, st.integers(0, 2)).map(
        lambda pair: {"type": "object", "additionalProperties": pair[0], "minProperties": pair[1]}
    )
    unions = st.lists(inner, min_size=1, max_size=3).map(lambda options: {"anyOf": options})
    return objects | arrays | maps | unions


SCHEMAS = st.recursive(LEAVES, nested, max_leaves=6)


@given(SCHEMAS, st.text())
def test_an_example_satisfies_its_schema(schema, text):
    check(schema, text)


@given(SCHEMAS)
def test_words_that_people_say_do_not_make_it_wrong(schema):
    check(schema, "Order 1024 of Li Lei, id u-7788, from 2025-01-07 to Paris: 3.5 kg or -2, see https://x.org/a")


class Address(msgspec.Struct):
    city: Annotated[str, Meta(min_length=3)]
    zip: Annotated[str, Meta(pattern=r"^\d{5}$")]


@dataclass
class Line:
    item: str
    count: Annotated[int, Meta(gt=0, lt=100)]


class Order(msgspec.Struct):
    id: Annotated[str, Meta(pattern="^[0-9]{8}$")]
    to: Address
    lines: Annotated[list[Line], Meta(min_length=2)]
    level: Literal["gold", "silver"]
    weight: Annotated[float, Meta(gt=0, le=0.5)] | None
    pair: tuple[int, str]
    tags: dict[str, int]


def test_msgspec_types_accept_their_examples():
    made = example(msgspec.json.schema(Order), "Send order 20250101")
    assert msgspec.convert(made, Order).id == "20250101"


class Node(BaseModel):
    name: str = Field(pattern=r"^n-\d+$")
    child: "Node | None"
    children: list["Node"]


def test_recursive_pydantic_types_accept_their_examples():
    Node.model_validate(example(Node.model_json_schema()))


STRING = {"type": "string"}


def arguments(text: str, **properties) -> dict:
    return check({"type": "object", "properties": properties, "required": list(properties)}, text)


def test_words_of_the_user_are_used():
    asked = "Where is my order 1024? I am user u-7788."
    assert arguments(asked, order_id=STRING, user_id=STRING) == {"order_id": "1024", "user_id": "u-7788"}
    assert arguments("What is the weather in Paris?", city=STRING) == {"city": "Paris"}
    assert arguments("Add -3 and 4.5", a={"type": "integer"}, b={"type": "number", "minimum": 0}) == {"a": -3, "b": 4.5}
    assert arguments("make it GOLD", level={"enum": ["silver", "gold"]}) == {"level": "gold"}
    assert arguments("mail li@example.org", to={"type": "string", "format": "email"}) == {"to": "li@example.org"}


def test_words_are_found_among_chinese():
    eight = {"type": "string", "pattern": "^[0-9]{8}$"}
    assert arguments("查询订单20250101的状态，同时查一下物流信息", order_id=eight) == {"order_id": "20250101"}


def test_examples_and_defaults_come_before_made_up_values():
    assert example({"type": "string", "examples": ["Rome"]}) == "Rome"
    assert example({"type": "integer", "default": 7}) == 7
    assert example({"type": "integer", "maximum": 5, "default": 7}) == 1


def test_exclusive_bounds_of_floats():
    check({"type": "number", "exclusiveMinimum": 0.1, "exclusiveMaximum": 0.1000001})
    check({"type": "number", "exclusiveMinimum": 1e20})


def test_references_and_parts_are_followed():
    schema = {"allOf": [{"$ref": "#/$defs/A"}, {"minimum": 3}], "$defs": {"A": {"type": "integer", "maximum": 9}}}
    assert 3 <= example(schema) <= 9


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "^(?!.)x$"},
        {"type": "string", "pattern": "("},
        {"type": "integer", "minimum": 5, "maximum": 4},
        {"$ref": "#/$defs/nowhere"},
        {"type": "array", "items": {"const": 1}, "minItems": 2, "uniqueItems": True},
        {"type": "object", "properties": {"self": {"$ref": "#"}}, "required": ["self"]},
    ],
    ids=json.dumps,
)
def test_what_cannot_be_satisfied_is_said(schema):
    with pytest.raises(CannotExemplify):
        example(schema)
