"""What a type becomes: a schema, a tool, and how each service is asked for it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest

from hotloop.errors import ArgumentsError, ConfigError
from hotloop.models.dialects import DIALECTS
from hotloop.output.output import Output


class Line(msgspec.Struct):
    sku: str
    count: Annotated[int, msgspec.Meta(ge=1)] = 1


class Order(msgspec.Struct):
    """An order."""

    id: Annotated[str, msgspec.Meta(pattern="^[0-9]{8}$")]
    lines: list[Line] = []


@dataclass
class Point:
    x: int
    y: int | None = None


class Movie(TypedDict):
    title: str


class City(pydantic.BaseModel):
    name: str
    people: int = pydantic.Field(ge=0)


class Node(msgspec.Struct):
    name: str
    inner: list[Node] = []


class Card(msgspec.Struct, tag="card"):
    number: str


class Cash(msgspec.Struct, tag="cash"):
    pass


class Color(Enum):
    RED = "red"


def of(kind: Any) -> Output:
    output = Output.of(kind)
    assert output is not None
    return output


def value(output: Output, text: str) -> Any:
    return output.tool.bind(text)["value"]


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (Order, '{"id": "12345678", "lines": [{"sku": "a"}]}', Order("12345678", [Line("a")])),
        (Point, '{"x": 1, "y": null}', Point(1)),
        (Movie, '{"title": "M"}', {"title": "M"}),
        (City, '{"name": "Rome", "people": 3}', City(name="Rome", people=3)),
        (Node, '{"name": "a", "inner": [{"name": "b"}]}', Node("a", [Node("b")])),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (int, '{"value": 3.0}', 3),
        (list[int], '{"value": [1, 2]}', [1, 2]),
        (list[int], "[1, 2]", [1, 2]),
        (list[City], '{"value": [{"name": "Oslo", "people": 1}]}', [City(name="Oslo", people=1)]),
        (Literal["yes", "no"], '"yes"', "yes"),
        (Color, '{"value": "red"}', Color.RED),
        (Order | None, '{"value": null}', None),
        (Card | Cash, '{"value": {"type": "card", "number": "1"}}', Card("1")),
        (bool | int, '{"value": true}', True),
        (Any, '{"value": [{}]}', [{}]),
    ],
)
def test_values_of_every_kind(kind: Any, text: str, expected: Any) -> None:
    output = of(kind)
    assert value(output, text) == expected
    assert output.schema["type"] == "object"
    assert output.wrapped is ("value" in output.schema.get("properties", {}))


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (Order, '{"id": "12345678", "lines": [{"sku": 1}]}', r"got `int` - at `\$\.lines\[0\]\.sku`"),
        (City, '{"name": "Rome", "people": -1}', "people: Input should be greater than or equal to 0"),
        (list[int], '{"value": ["a"]}', r"at `\$\.value\[0\]`"),
        (list[int], "{}", "required field `value`"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(kind: Any, text: str, words: str) -> None:
    with pytest.raises(ArgumentsError, match=words):
        value(of(kind), text)


@pytest.mark.parametrize("kind", [None, str])
def test_text_is_no_output(kind: Any) -> None:
    assert Output.of(kind) is None


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (3, "output is 3, which no answer can be"),
        (complex, "take two floats"),
        (Node | Line, "must be tagged"),
        (lambda: 0, "no answer can be"),
        (set[object], "no answer can be"),
        (pydantic.BaseModel, "no answer can be: .* a subclass of BaseModel, not BaseModel itself.$"),
        (list[pydantic.BaseModel], "a subclass of BaseModel"),
    ],
)
def test_types_that_no_answer_can_have(kind: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Output.of(kind)


def test_the_schema_is_short_and_closed() -> None:
    line = {
        "type": "object",
        "properties": {"sku": {"type": "string"}, "count": {"type": "integer", "minimum": 1, "default": 1}},
        "required": ["sku"],
        "additionalProperties": False,
    }
    assert of(Order).schema == {
        "type": "object",
        "properties": {
            "id": {"type": "string", "pattern": "^[0-9]{8}$"},
            "lines": {"type": "array", "items": line},
        },
        "required": ["id"],
        "description": "An order.",
        "additionalProperties": False,
    }
    node = of(Node).schema
    assert node["properties"]["inner"]["items"] == {"$ref": "#/$defs/Node"}
    assert set(node["$defs"]) == {"Node"}


FORMAT, TOOL, TOLD = "response_format", "tool", "told"


@pytest.mark.parametrize(
    ("dialect", "stream", "tools", "expected"),
    [
        ("openai", True, False, {FORMAT}),
        ("openai", True, True, {FORMAT}),
        ("groq", True, False, {TOOL}),
        ("groq", False, False, {FORMAT}),
        ("groq", False, True, {TOOL}),
        ("vllm", True, False, {FORMAT, TOLD}),
        ("vllm", True, True, {TOOL}),
        ("ollama", True, False, {FORMAT, TOLD}),
        ("ollama", True, True, {TOOL}),
        ("gemini", True, False, {FORMAT}),
        ("deepseek", True, False, {TOOL}),
        ("generic", True, False, {TOLD}),
        ("generic", True, True, {TOOL}),
    ],
)
def test_how_each_service_is_asked(dialect: str, stream: bool, tools: bool, expected: set[str]) -> None:
    output, spoken = of(Order), DIALECTS[dialect]
    form = output.form(spoken, stream, tools)
    instructions = output.instructions("Be brief.", [(spoken, stream)], tools)
    ways = {FORMAT: form.response_format, TOOL: form.tool, TOLD: instructions != "Be brief."}
    assert {way for way, used in ways.items() if used} == expected
    assert bool(form.choice) is bool(form.tool)


def test_one_service_of_several_that_shows_nothing_is_enough_to_tell_the_model() -> None:
    output, services = of(Order), [(DIALECTS[name], True) for name in ("openai", "generic")]
    told = output.instructions("Be brief.", services, False)
    assert told.startswith("Be brief.\n\nGive your final answer as JSON")
    assert json.loads(told.rpartition("\n")[2]) == output.schema
    assert output.instructions("", services, False).startswith("Give")


def test_services_that_hold_to_the_letter_are_given_what_they_know() -> None:
    asked = json.loads(of(Order).form(DIALECTS["openai"], True, False).response_format)
    assert asked["json_schema"]["strict"] is True
    assert asked["json_schema"]["schema"]["required"] == ["id", "lines"]
    loose = json.loads(of(dict[str, int]).form(DIALECTS["openai"], True, False).response_format)
    assert "strict" not in loose["json_schema"]
    plain = json.loads(of(Order).form(DIALECTS["vllm"], True, False).response_format)
    assert plain["json_schema"]["schema"] == of(Order).schema


def test_pydantic_is_not_imported_for_types_that_are_not_its() -> None:
    code = (
        "import sys; from hotloop.output.output import Output; Output.of(list[int]); "
        "sys.exit(any(name.startswith('pydantic') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
