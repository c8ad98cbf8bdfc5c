"""Long results: what the model reads of them, and the tool that gives it the rest."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hotloop import Agent, tool
from hotloop.context.conversation import Conversation
from hotloop.errors import SessionConflict, ToolDefinitionError
from hotloop.lab.script import Call
from hotloop.models.sizes import text_tokens
from hotloop.testing import ScriptedModel, call, run_virtual
from hotloop.tools.cutting.rest import read_rest
from timed_tools import Notes, Ran, ran, results_of


@tool(read_only=True)
async def orders(count: int = 100) -> list[dict[str, Any]]:
    """All orders."""
    return [{"id": number, "note": "x" * 20} for number in range(count)]


@tool(read_only=True)
async def book() -> str:
    """A text."""
    return " ".join(f"word{number}" for number in range(1000))


def asked(*arguments: dict[str, Any], first: Call | None = None, tools: Any = (orders, book)) -> Ran:
    """A call whose result is cut at 125 tokens, then calls of `read_result` with these arguments."""
    script = [first or call("orders"), [call("read_result", **each) for each in arguments] or call("orders"), "ok"]
    return ran(script, *tools, max_result=125)


def test_what_is_too_long_is_cut_with_a_note_of_how_to_get_the_rest():
    (content,) = asked().contents
    items = json.loads(content)
    assert text_tokens(content) <= 125
    assert items[0] == {"id": 0, "note": "x" * 20}
    assert items[-1]["…"].startswith(f"{len(items) - 1} of 100 items shown; path=$ start={len(items) - 1}.")
    assert 'Call read_result with result "call00002"' in items[-1]["…"]


def test_the_rest_comes_in_pieces_of_the_same_size():
    seen: list[int] = []

    def model(request: dict[str, Any]) -> Any:
        content = request["messages"][-1]["content"]
        if request["messages"][-1]["role"] == "user":
            return call("orders")
        assert text_tokens(content) <= 125
        seen.extend(item["id"] for item in json.loads(content) if "id" in item)
        return "ok" if len(seen) == 100 else call("read_result", result="call00001", start=len(seen))

    ran(model, orders, max_result=125, max_turns=30)
    assert seen == list(range(100))


@pytest.mark.parametrize(
    ("arguments", "content"),
    [
        ({"path": "[70].id"}, "70"),
        ({"path": "[70]"}, '{"id":70,"note":"xxxxxxxxxxxxxxxxxxxx"}'),
        ({"path": "[70].note"}, "x" * 20),
        ({"start": 99}, '[{"id":99,"note":"xxxxxxxxxxxxxxxxxxxx"}]'),
    ],
)
def test_a_part_can_be_asked_for(arguments, content):
    assert asked({"result": "call00001"} | arguments).contents == [content]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            {"result": "call00009"},
            "There is no result call00009; give the id that its cut says, or call its tool again.",
        ),
        ({"result": "call00001", "path": "[200]"}, "$ has 100 items, so there is no [200]"),
        ({"result": "call00001", "start": 100}, "$ has 100 items, so that nothing starts at 100."),
    ],
)
def test_what_is_not_there_is_told(arguments, said):
    done = asked(arguments)
    assert done.errors == [said]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"result": "call00001", "start": -1}, "Expected `int` >= 0 - at `$.start`"),
        ({"path": "$"}, "Object missing required field `result`"),
        ({"id": "call00001"}, "Object contains unknown field `id`"),
    ],
)
def test_wrong_arguments_are_answered_with_those_that_it_takes(arguments, said):
    (error,) = asked(arguments).errors
    assert error.startswith(f"The arguments of read_result are wrong: {said}. Call it again with arguments that fit {{")
    assert '"result":{"type":"string","description":"Its id, such as call00001"}' in error


def test_a_whole_number_may_be_written_as_models_do():
    assert asked({"result": "call00001", "path": "[70].note", "start": 15.0}).contents == ["xxxxx"]


async def elsewhere(call_id: str) -> str | None:
    """Whole results that are no longer in memory."""
    if call_id == "call00003":
        raise SessionConflict("The sessions are locked.")
    return "one two three" if call_id == "call00002" else None


@pytest.mark.parametrize(
    ("call_id", "content"),
    [
        ("call00001", "here"),
        ("call00002", "two three"),
        ("call00003", {"error": "The sessions are locked."}),
        (
            "call00004",
            {"error": "There is no result call00004; give the id that its cut says, or call its tool again."},
        ),
    ],
)
async def test_what_is_no_longer_in_memory_is_fetched(call_id, content):
    conversation = Conversation()
    conversation.keep("call00001", "all here")
    result = await read_rest(conversation, elsewhere, json.dumps({"result": call_id, "start": 4}), {}, 100)
    assert result.content == content if isinstance(content, str) else json.loads(result.content) == content


def test_text_is_cut_between_words_and_goes_on_there():
    (content,) = asked({"result": "call00001", "start": 490}, first=call("book")).contents
    words = content.split("\n")[0].split()
    assert text_tokens(content) <= 125
    assert all(word.startswith("word") for word in words[1:])


def test_a_tools_own_bound_comes_before_the_agents():
    def text(size: int) -> Any:
        async def words() -> str:
            return "word " * 200

        return tool(words, name=f"to{size}", max_result=size)

    done = ran([[call("to75"), call("to500")], "ok"], text(75), text(500), max_result=125)
    short, whole = done.contents
    assert (text_tokens(short) <= 75, len(whole)) == (True, 1000)


def sized(name: str, **rules: Any) -> Any:
    """A tool with a long result and these rules."""

    async def words() -> str:
        return "word " * 40_000

    return tool(words, name=name, read_only=True, **rules)


@pytest.mark.parametrize(
    ("rules", "options", "bound"),
    [
        ({"max_result": 100}, {}, 100),
        ({"max_result": 100}, {"max_result": 2000}, 100),
        ({"max_result": 2000}, {"max_result": 100}, 2000),
        ({}, {"max_result": 300}, 300),
        ({"keep": ["none"]}, {}, 25_000),
    ],
)
def test_a_step_of_reading_has_the_bound_that_the_result_had(rules, options, bound):
    script = [call("letter"), call("read_result", result="call00001", start=400), "ok"]
    (piece,) = ran(script, sized("letter", **rules), sized("other", max_result=700), **options).contents
    assert bound - 5 <= text_tokens(piece) <= bound


@pytest.mark.parametrize(
    ("rules", "options", "bound"),
    [
        ([{"max_result": 100}, {"max_result": 700}], {}, 700),
        ([{"max_result": 100}, {}], {"max_result": 300}, 300),
        ([{"keep": ["none"]}], {}, 25_000),
    ],
)
def test_in_a_later_turn_it_has_the_largest_bound_that_is_declared(rules, options, bound):
    tools = [sized(f"letter{number}", **each) for number, each in enumerate(rules)]

    async def main() -> str:
        model = ScriptedModel([call("letter0"), "ok", call("read_result", result="call00001"), "ok"])
        async with Agent(model="m", endpoint=model, tools=tools, sessions=":memory:", **options) as agent:
            session = agent.session("a")
            await session.run("Read.")
            await session.run("Go on.")
        return results_of(model.requests[-1])[0]

    assert bound - 5 <= text_tokens(run_virtual(main())) <= bound


@pytest.mark.parametrize(
    ("rules", "options", "offered"),
    [
        ({}, {}, False),
        ({}, {"max_result": 125}, True),
        ({"keep": ["[].id"]}, {}, True),
        ({"summarize": True}, {}, True),
    ],
)
def test_the_tool_is_offered_only_where_something_may_be_left_out(rules, options, offered):
    done = ran(["ok"], tool(orders.function, **rules), **options)
    names = [each["function"]["name"] for each in done.model.requests[0]["tools"]]
    assert ("read_result" in names) is offered


def test_where_nothing_is_cut_it_is_an_unknown_tool():
    done = ran([call("read_result", result="call00001"), "ok"], orders)
    assert done.errors == ["There is no tool read_result. The tools are: orders."]


def test_its_name_is_taken():
    notes = Notes()
    with pytest.raises(ToolDefinitionError, match="a tool of its own named read_result"):
        Agent(model="m", endpoint=ScriptedModel([]), tools=[notes.tool("read_result")], max_result=125)
