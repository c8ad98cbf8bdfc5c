"""The tools by which a model remembers know whose facts they are about."""

from __future__ import annotations

import asyncio
import re

import msgspec
import pytest

from hotloop import Agent, ToolFinished, ToolStarted
from hotloop.context.memory.memory import Memory
from hotloop.testing import ScriptedModel, call, run_virtual
from hotloop.tools.remembering import memory_tools


async def results(memory: Memory, *turns: list, user: str = "ann", session: str = "", **options) -> list:
    """What the model reads of its calls, those of one reply in one list of `turns`."""
    agent = Agent(model="m", endpoint=ScriptedModel([*turns, "done"]), tools=memory_tools(memory), **options)
    runs = agent.session(session) if session else agent
    events = [event async for event in runs.stream("go", user=user)]
    finished = {event.call_id: event.content for event in events if isinstance(event, ToolFinished)}
    return [_read(finished[name]) for name in sorted(finished)]


def _read(content: str) -> object:
    return msgspec.json.decode(content) if content[:1] in "[{" else content


def asking(memory: Memory, *turns: list, **options) -> list:
    return run_virtual(results(memory, *turns, sessions=":memory:", **options))


def test_what_the_model_remembers_is_its_users():
    memory = Memory(":memory:")
    assert asking(memory, [call("remember", fact="Ann likes tea.")], [call("recall", about="tea")]) == [
        "kept",
        ["Ann likes tea."],
    ]
    assert asking(memory, [call("recall", about="tea")], user="bob") == [[]]
    assert [fact.user for fact in asyncio.run(memory.export("ann"))] == ["ann"]


def test_a_run_of_nobody_has_no_memory():
    memory = Memory(":memory:")
    calls = [call("remember", fact="tea"), call("recall", about="tea"), call("forget", fact="tea")]
    told = asking(memory, calls, user="")
    assert [set(each) for each in told] == [{"error"}] * 3
    assert {each["error"] for each in told} == {"Nothing is kept: this run names no user whose it would be."}


def test_calls_of_one_reply_see_what_those_before_have_done():
    memory = Memory(":memory:")
    calls = [
        call("remember", fact="tea"),
        call("recall", about="tea"),
        call("forget", fact="Tea."),
        call("recall", about="tea"),
    ]
    assert asking(memory, calls) == ["kept", ["tea"], "deleted", []]


def test_what_was_looked_up_before_is_not_given_to_others_or_when_it_is_stale():
    """With an agent that keeps the results of its read-only tools."""
    memory = Memory(":memory:")
    memory.remember("tea", user="ann")
    asked, told = [call("recall", about="tea")], [call("remember", fact="milk")]
    model = ScriptedModel([asked, told, asked, told, "done", asked, "done"])
    agent = Agent(model="m", endpoint=model, tools=memory_tools(memory), tool_ttl=60)

    async def contents(user: str) -> list[str]:
        return [event.content async for event in agent.stream("go", user=user) if isinstance(event, ToolFinished)]

    async def main():
        return await contents("ann"), await contents("bob")

    assert run_virtual(main()) == (['["tea"]', "kept", '["tea","milk"]', "kept"], ["[]"])


def test_facts_of_the_session_are_found_and_forgotten_in_it():
    memory = Memory(":memory:")
    memory.remember("tea", user="ann", session="monday")
    assert asking(memory, [call("recall", about="tea")], session="sunday") == [[]]
    turns = [call("recall", about="tea")], [call("forget", fact="tea")]
    assert asking(memory, *turns, session="monday") == [["tea"], "deleted"]


def test_words_that_are_no_facts_lead_to_those_that_are():
    memory = Memory(":memory:")
    memory.remember("Ann likes green tea.", user="ann")
    (told,) = asking(memory, [call("forget", fact="Ann likes tea.")])
    assert 'What comes nearest: "Ann likes green tea.". Call forget' in told["error"]
    (told,) = asking(memory, [call("forget", fact="Ann likes tea.")], user="bob")
    assert told == {"error": "Nothing is kept of this user."}


@pytest.mark.parametrize(("fact", "told"), [("x" * 1001, "maximum length|length <= 1000"), (" ", "some text")])
def test_what_is_no_fact_is_told_the_model(fact, told):
    (answer,) = asking(Memory(":memory:"), [call("remember", fact=fact)])
    assert re.search(told, answer["error"])


def test_a_person_reads_what_is_remembered():
    memory = Memory(":memory:")
    agent = Agent(
        model="m", endpoint=ScriptedModel([[call("remember", fact="tea")], "done"]), tools=memory_tools(memory)
    )

    async def main():
        return [event.status async for event in agent.stream("go", user="ann") if isinstance(event, ToolStarted)]

    assert run_virtual(main()) == ["Remembering: tea"]
