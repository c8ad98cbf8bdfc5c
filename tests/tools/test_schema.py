"""The schema a model sees: minimal, and exactly as strict as what `bind` accepts."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import jsonschema
import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta

from hotloop.errors import ArgumentsError, ToolDefinitionError
from hotloop.tools.defining.define import tool
from hotloop.tools.defining.tool import Tool


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Address(msgspec.Struct):
    """Where something goes.

    More about addresses that no model needs.

    Attributes:
        city: The city's name.
    """

    city: str
    zip: str = ""


class Node(msgspec.Struct):
    value: int
    next: Node | None = None


class Circle(msgspec.Struct, tag="circle"):
    radius: float


class Square(msgspec.Struct, tag="square"):
    side: float


class Point(NamedTuple):
    x: float
    y: float


@dataclasses.dataclass
class Item:
    title: str
    count: int = 1


class Window(TypedDict, total=False):
    title: str


class Order(pydantic.BaseModel):
    """An order.

    Kept long."""

    number: str = pydantic.Field(pattern="^[0-9]{8}$", description="Eight digits.")
    note: str | None = None
    title: str = ""


class Tree(pydantic.BaseModel):
    children: list[Tree] = []


def tool_of(**types: Any) -> Tool:
    """A tool whose parameters have these types; a pair is a type and its default."""
    source = ", ".join(f"{name}={name}" if isinstance(each, tuple) else name for name, each in types.items())
    defaults = {name: each[1] for name, each in types.items() if isinstance(each, tuple)}
    namespace: dict[str, Any] = dict(defaults)
    exec(f"def made(*, {source}): pass" if types else "def made(): pass", namespace)
    made = namespace["made"]
    made.__annotations__ = {name: each[0] if isinstance(each, tuple) else each for name, each in types.items()}
    return tool(made)


def property_of(type_: Any, *default: Any) -> dict[str, Any]:
    parameters = tool_of(x=(type_, *default) if default else type_).parameters
    schema: dict[str, Any] = parameters["properties"]["x"]
    return schema


@pytest.mark.parametrize(
    ("type_", "schema"),
    [
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (Any, {}),
        (int | float, {"type": "number"}),
        (str | None, {"type": ["string", "null"]}),
        (int | str | None, {"type": ["integer", "string", "null"]}),
        (list, {"type": "array"}),
        (list[int] | None, {"type": ["array", "null"], "items": {"type": "integer"}}),
        (dict[str, Any], {"type": "object"}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (
            dict[Literal["a", "b"], int],
            {
                "type": "object",
                "additionalProperties": {"type": "integer"},
                "propertyNames": {"type": "string", "enum": ["a", "b"]},
            },
        ),
        (Color | int, {"anyOf": [{"type": "string", "enum": ["red", "blue"]}, {"type": "integer"}]}),
        (set[str], {"type": "array", "items": {"type": "string"}}),
        (tuple[float, float], {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}),
        (
            tuple[int, str],
            {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
        ),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a", None], {"type": ["string", "null"], "enum": ["a", None]}),
        (Literal[1, True], {"type": ["boolean", "integer"], "enum": [True, 1]}),
        (Color, {"type": "string", "enum": ["red", "blue"]}),
        (Color | None, {"type": ["string", "null"], "enum": ["red", "blue", None]}),
        (Level, {"type": "integer", "enum": [1, 2]}),
        (datetime.datetime, {"type": "string", "format": "date-time"}),
        (Annotated[datetime.datetime, Meta(tz=False)], {"type": "string"}),
        (datetime.date, {"type": "string", "format": "date"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (Decimal, {"type": "number"}),
        (Annotated[str, Meta(pattern="^a", max_length=3)], {"type": "string", "pattern": "^a", "maxLength": 3}),
        (Annotated[int, Meta(ge=1, lt=9)], {"type": "integer", "minimum": 1, "exclusiveMaximum": 9}),
        (Annotated[list[int], Meta(min_length=1)], {"type": "array", "items": {"type": "integer"}, "minItems": 1}),
        (Annotated[str, Meta(title="noise", description="said", examples=["x"])], {
            "type": "string", "description": "said", "examples": ["x"],
        }),
        (Point, {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}),
        (Window, {"type": "object", "properties": {"title": {"type": "string"}}}),
        (Item, {
            "type": "object",
            "properties": {"title": {"type": "string"}, "count": {"type": "integer", "default": 1}},
            "required": ["title"],
        }),
        (Address, {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "The city's name."}, "zip": {"type": "string"}},
            "required": ["city"],
            "description": "Where something goes.",
        }),
    ],
)  # fmt: skip
def test_types_have_the_shortest_schema(type_: Any, schema: dict[str, Any]) -> None:
    assert property_of(type_) == schema


def test_the_whole_of_a_tool_is_closed_and_says_what_is_required() -> None:
    made = tool_of(a=str, b=(int, 3))
    assert made.parameters == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer", "default": 3}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert tool_of().parameters == {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.parametrize("default", [None, "", [], {}, object()])
def test_defaults_that_say_nothing_are_left_out(default: object) -> None:
    assert "default" not in property_of(Any, default)


def test_tagged_structs_are_a_choice_in_place() -> None:
    schema = property_of(Circle | Square)
    assert [option["properties"]["type"]["enum"] for option in schema["anyOf"]] == [["circle"], ["square"]]
    assert schema.keys() == {"anyOf"}


def test_a_class_used_once_is_in_place_and_a_recursive_one_referred_to() -> None:
    assert "$defs" not in tool_of(where=Address).parameters
    recursive = tool_of(node=Node).parameters
    assert recursive["properties"]["node"] == {"$ref": "#/$defs/Node"}
    assert recursive["$defs"].keys() == {"Node"}


def test_a_large_class_used_often_is_written_once_and_a_small_one_in_place() -> None:
    parameters = tool_of(a=Address, b=Address, c=Address, d=Color, e=Color).parameters
    assert parameters["$defs"].keys() == {"Address"}
    assert parameters["properties"]["e"] == {"type": "string", "enum": ["red", "blue"]}


def test_two_classes_of_one_name_do_not_meet() -> None:
    first = msgspec.defstruct("Same", [("a", "list[Same] | None")], namespace={"__module__": __name__})
    second = msgspec.defstruct("Same", [("b", dict[str, "Node"]), ("c", Node)])
    globals()["Same"] = first
    parameters = tool_of(x=first, y=second, z=second).parameters
    jsonschema.Draft202012Validator.check_schema(parameters)
    check = jsonschema.Draft202012Validator(parameters)
    good = {"b": {}, "c": {"value": 1}}
    assert check.is_valid({"x": {"a": [{"a": None}]}, "y": good, "z": good})
    assert not check.is_valid({"x": {"a": [good]}, "y": good, "z": good})


def test_pydantic_models_are_stripped_to_what_a_model_needs() -> None:
    assert property_of(Order) == {
        "type": "object",
        "description": "An order.",
        "properties": {
            "number": {"type": "string", "pattern": "^[0-9]{8}$", "description": "Eight digits."},
            "note": {"type": ["string", "null"]},
            "title": {"type": "string"},
        },
        "required": ["number"],
    }
    recursive = tool_of(tree=Tree, again=(Tree | None, None)).parameters
    assert recursive["$defs"].keys() == {"Tree"}


class Gear:
    """A class that JSON knows nothing of."""


@pytest.mark.parametrize(
    ("type_", "says"),
    [
        (Gear, "value of type Gear; use a dataclass"),
        (Callable[[int], int], "take a name"),
        (complex, "two floats"),
        (list[Gear], "value of type Gear"),
        (dict[int, str], "dict\\[str"),
        (list[int] | list[str], "use one of the types"),
        (Address | Item, "carry a tag"),
        (Order | str, "use one of the types"),
        (msgspec.Raw, "Raw has no form in JSON"),
        (pydantic.dataclasses.dataclass(Item), "use a BaseModel"),
    ],
)
def test_a_type_without_a_form_in_json_is_refused_with_what_to_use(type_: Any, says: str) -> None:
    with pytest.raises(ToolDefinitionError, match=f"tool made: parameter 'x': .*{says}"):
        tool_of(x=type_)


NUMBERS = st.integers(-(10**6), 10**6) | st.floats(-1e6, 1e6) | st.integers(-9, 9).map(float)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=4) | st.sampled_from(["red", "a", "circle"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
LEAVES = st.sampled_from([
    (str, st.text(max_size=5)),
    (int, st.integers(-5, 5) | st.integers(-5, 5).map(float)),
    (float, NUMBERS),
    (bool, st.booleans()),
    (Any, JSON),
    (Color, st.sampled_from(["red", "blue", "green"])),
    (Level, st.sampled_from([1, 2, 3, 1.0, True])),
    (Literal["a", "b", 3], st.sampled_from(["a", "b", "c", 3, 3.0, 4])),
    (Annotated[str, Meta(pattern="^[ab]+$")], st.text("abc", max_size=3)),
    (Annotated[str, Meta(min_length=1, max_length=2)], st.text(max_size=3)),
    (Annotated[int, Meta(ge=0, lt=3)], st.integers(-1, 4)),
    (Annotated[float, Meta(gt=0, le=1)], st.floats(-1, 2) | st.integers(-1, 2)),
    (Color | int, st.sampled_from(["red", "green", 1, 1.5])),
    (Literal["a", 3] | None, st.sampled_from(["a", "b", 3, None])),
    (dict[Color, int], st.dictionaries(st.sampled_from(["red", "blue", "green"]), st.integers(), max_size=2)),
    (dict[Annotated[str, Meta(pattern="^a")], Any], st.dictionaries(st.sampled_from(["a", "b"]), JSON, max_size=2)),
    (Point, st.lists(NUMBERS, max_size=3)),
    (Item, st.fixed_dictionaries({"title": st.text(max_size=2)}, optional={"count": NUMBERS, "other": JSON})),
    (Window, st.fixed_dictionaries({}, optional={"title": st.text(max_size=2) | st.none()})),
    (Node, st.recursive(
        st.just({"value": 1}), lambda inner: st.fixed_dictionaries({"value": NUMBERS, "next": inner}), max_leaves=3,
    )),
    (Circle | Square, st.fixed_dictionaries(
        {"type": st.sampled_from(["circle", "square", "line"])}, optional={"radius": NUMBERS, "side": NUMBERS},
    )),
    (Order, st.fixed_dictionaries({"number": st.sampled_from(["20250101", "1"])}, optional={"note": st.none()})),
])  # fmt: skip


def containers(inner: Any) -> Any:
    def of(build: Callable[[Any], Any], values: Callable[[Any], Any]) -> Any:
        return inner.map(lambda pair: (build(pair[0]), values(pair[1])))

    return st.one_of(
        of(lambda t: list[t], lambda v: st.lists(v, max_size=3)),
        of(lambda t: dict[str, t], lambda v: st.dictionaries(st.text(max_size=2), v, max_size=2)),
        of(lambda t: t | None if t is not Any else t, lambda v: v | st.none()),
        of(lambda t: tuple[t, ...], lambda v: st.lists(v, max_size=3)),
        of(lambda t: tuple[int, t], lambda v: st.tuples(st.integers(), v).map(list)),
        of(lambda t: Annotated[list[t], Meta(min_length=1, max_length=2)], lambda v: st.lists(v, max_size=3)),
    )


TYPES = st.recursive(LEAVES, containers, max_leaves=3)
ABSENT = object()


@st.composite
def tools_and_arguments(draw: st.DrawFn) -> tuple[Tool, dict[str, Any]]:
    types: dict[str, Any] = {}
    arguments: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from(["a", "b", "self_", "title", "订单"]), max_size=3, unique=True)):
        type_, values = draw(TYPES)
        types[name] = (type_, "default") if draw(st.booleans()) else type_
        value = draw(st.one_of(values, values, values, JSON, st.just(ABSENT)))
        if value is not ABSENT:
            arguments[name] = value
    if draw(st.integers(0, 9)) == 0:
        arguments["extra"] = draw(JSON)
    return tool_of(**types), arguments


@settings(deadline=None)
@given(tools_and_arguments())
def test_what_fits_the_schema_binds_and_nothing_else(case: tuple[Tool, dict[str, Any]]) -> None:
    made, arguments = case
    jsonschema.Draft202012Validator.check_schema(made.parameters)
    text = json.dumps(arguments)
    if jsonschema.Draft202012Validator(made.parameters).is_valid(arguments):
        bound = made.bind(text)
        assert bound.keys() == made.parameters["properties"].keys()
    else:
        with pytest.raises(ArgumentsError, match="made"):
            made.bind(text)
