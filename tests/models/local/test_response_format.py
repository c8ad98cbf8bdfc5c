"""Answers that are held to a schema, and calls that have to be made."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import jsonschema
import msgspec
import pytest

from hotloop import Agent
from hotloop.lab.orders import query_order_status
from hotloop.models.local import grammar, smollm2, template
from hotloop.models.local.engine import LocalTransport
from hotloop.models.local.request import BadRequest, Function, read_request

Ask = Callable[..., Any]
Tools = list[dict[str, Any]]

PLACE = {
    "type": "object",
    "properties": {
        "order_id": {"type": "string", "pattern": "^[0-9]{8}$"},
        "status": {"enum": ["packed", "shipped", "delivered"]},
        "city": {"type": "string"},
        "items": {"type": "integer", "minimum": 0},
    },
    "required": ["order_id", "status", "city", "items"],
    "additionalProperties": False,
}
QUESTION = "What is the status of order 20250101, and where is it now (logistics)?"
LOOK_AROUND = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=x)y"}}, "required": ["a"]}


def held(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}


def chosen(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


@pytest.fixture(scope="module")
def plain(weights: Path) -> Iterator[LocalTransport]:
    """A model given by its path."""
    transport = LocalTransport(str(weights), threads=1)
    yield transport
    asyncio.run(transport.aclose())


@pytest.fixture(params=["smollm2", "plain"])
def model(request: pytest.FixtureRequest) -> LocalTransport:
    return request.getfixturevalue("local" if request.param == "smollm2" else "plain")  # type: ignore[no-any-return]


@pytest.mark.parametrize("temperature", [0, 1.2])
async def test_an_answer_meets_its_schema(ask: Ask, model: LocalTransport, temperature: float) -> None:
    prompt = "Order 20250101 is shipped, with 3 items, and it is now in Oslo."
    got = await ask(prompt, transport=model, response_format=held(PLACE), temperature=temperature, max_tokens=400)
    assert got.reply.finish_reason == "stop"
    jsonschema.validate(json.loads(got.reply.text), PLACE)


async def test_a_small_model_calls_first_and_answers_from_the_results(ask: Ask, order_tools: Tools) -> None:
    asked = {"tools": order_tools, "response_format": held(PLACE)}
    messages: list[dict[str, Any]] = [{"role": "user", "content": QUESTION}]
    called = await ask(messages=messages, **asked)
    assert [name for name, _ in called.calls] == ["query_order_status", "query_logistics"]
    results = ['{"status":"shipped","items":3}', '{"carrier":"DHL","city":"Shenzhen"}']
    messages += [called.message]
    messages += [{"role": "tool", "tool_call_id": f"c{at}", "content": each} for at, each in enumerate(results)]
    answered = await ask(messages=messages, **asked)
    assert json.loads(answered.reply.text) == {
        "order_id": "20250101",
        "status": "shipped",
        "city": "Shenzhen",
        "items": 3,
    }


async def test_an_agent_on_the_engine_answers_with_a_value(local: LocalTransport) -> None:
    class Place(msgspec.Struct):
        order_id: Annotated[str, msgspec.Meta(pattern="^[0-9]{8}$")]
        status: Literal["packed", "shipped", "delivered"]

    agent = Agent(model="smollm2", endpoint=local, dialect="openai", tools=[query_order_status], output=Place)
    result = await agent.run("What is the status of order 20250101?")
    assert result.output == Place("20250101", "shipped")
    assert [facts.tools for facts in result.trace.turns] == [["query_order_status"], []]


async def test_beside_tools_a_model_calls_or_answers_in_the_form(
    ask: Ask, plain: LocalTransport, order_tools: Tools
) -> None:
    for prompt in ("Good morning!", QUESTION):
        got = await ask(prompt, transport=plain, tools=order_tools, response_format=held(PLACE), max_tokens=400)
        assert got.reply.finish_reason in ("stop", "tool_calls")
        if not got.calls:
            jsonschema.validate(json.loads(got.reply.text), PLACE)


async def test_any_object_is_one_that_ends(ask: Ask) -> None:
    got = await ask("Order 20250101 is in Oslo.", response_format={"type": "json_object"})
    assert got.reply.finish_reason == "stop"
    assert isinstance(json.loads(got.reply.text), dict)


async def test_a_schema_that_cannot_be_held_is_refused(ask: Ask, model: LocalTransport) -> None:
    got = await ask("a", transport=model, response_format=held(LOOK_AROUND))
    assert got.status == 400
    assert got.error["message"].startswith("The schema of response_format cannot be held while decoding.")


async def test_a_tool_that_has_to_be_called_is(ask: Ask, model: LocalTransport, order_tools: Tools) -> None:
    got = await ask("Good morning 20250101!", transport=model, tools=order_tools, tool_choice=chosen("query_logistics"))
    ((name, arguments),) = got.calls
    assert name == "query_logistics"
    jsonschema.validate(arguments, order_tools[1]["function"]["parameters"])


async def test_a_tool_that_is_not_there_cannot_be_called(ask: Ask, order_tools: Tools) -> None:
    got = await ask("Go", tools=order_tools, tool_choice=chosen("nothing"))
    assert (got.status, got.error["message"]) == (400, "tool_choice names nothing, which is none of the tools.")


@pytest.mark.parametrize("form", [{"type": "yaml"}, {"type": "json_schema", "json_schema": {"schema": 3}}, "json"])
def test_forms_that_are_none_are_refused(form: Any) -> None:
    body = {"messages": [{"role": "user", "content": "a"}], "response_format": form}
    with pytest.raises(BadRequest, match="cannot be read"):
        read_request(msgspec.json.encode(body))


def test_text_is_no_form_and_other_models_are_told_theirs(order_tools: Tools) -> None:
    def prepared(form: dict[str, Any]) -> Any:
        body = {"messages": [{"role": "user", "content": "a"}], "tools": order_tools, "response_format": form}
        request = read_request(msgspec.json.encode(body))
        return smollm2.prepare(request), template.prepare(request, (2,)).body["messages"][0]["content"]

    (free, told), (constrained, told_more) = prepared({"type": "text"}), prepared(held(PLACE))
    assert "%json" not in free.body["grammar"] and "%json" in constrained.body["grammar"]
    assert told_more.removeprefix(told).startswith("\n\nYour answer itself is JSON and nothing else")


# What has no end by itself


OPEN = {"type": "object"}
FLAGS = {"type": "object", "additionalProperties": {"type": "boolean"}}
SCALAR, ANY = {"$ref": "#/$defs/said-scalar"}, {"$ref": "#/$defs/said-any"}


def rule(value: dict[str, Any], said: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What one parameter is held to, and the definitions that go with it."""
    function = Function("f", "", {"type": "object", "properties": {"value": value}})
    schema = msgspec.json.decode(grammar.calls([function], said).split("%json ")[1])
    return schema["properties"]["value"], schema.get("$defs", {})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, ANY),
        ({"description": "Anything."}, ANY | {"description": "Anything."}),
        (OPEN, {"properties": {"one": SCALAR, "two": SCALAR}}),
        (FLAGS, {"properties": {"one": {"type": "boolean"}, "two": {"type": "boolean"}}}),
        ({"type": "object", "required": ["x"]}, {"properties": dict.fromkeys(["x", "one", "two"], SCALAR)}),
        ({"type": "array"}, {"items": SCALAR, "maxItems": 16}),
        ({"type": "array", "items": {}}, {"items": ANY, "maxItems": 16}),
    ],
)
def test_what_is_open_is_made_of_words_that_were_said(value: dict[str, Any], expected: dict[str, Any]) -> None:
    made, definitions = rule(value, ["one", "one two", "two"])
    assert made == value | expected | ({"additionalProperties": False} if "properties" in expected else {})
    assert ("said-any" in definitions) is ("$ref" in json.dumps(made))


@pytest.mark.parametrize("value", [{}, OPEN, FLAGS])
def test_a_model_that_ends_by_itself_may_write_what_it_likes(value: dict[str, Any]) -> None:
    assert rule(value, []) == (value, {})


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        FLAGS,
        {"type": "array", "items": {}},
        {"type": ["object", "null"], "properties": {"a": {}}, "additionalProperties": {"type": "integer"}},
    ],
)
async def test_open_values_come_to_an_end(ask: Ask, schema: dict[str, Any]) -> None:
    tool = {
        "type": "function",
        "function": {"name": "use", "parameters": {"type": "object", "properties": {"v": schema}, "required": ["v"]}},
    }
    for step, prompt in enumerate(["Use Ann and Bob with 3 and 4", "使用一下，谢谢", "!"]):
        got = await ask(prompt, tools=[tool], tool_choice=chosen("use"), temperature=0.6 * step, max_tokens=1000)
        ((_, arguments),) = got.calls
        jsonschema.validate(arguments["v"], schema)
