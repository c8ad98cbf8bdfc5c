"""Agents that keep answers: what is given again, to whom, and what never is."""

from __future__ import annotations

import msgspec
import pytest

from hotloop import Agent, AnswerCache, Budget, ConfigError, RunFinished, TextDelta, tool
from hotloop.testing import ScriptedModel, call, raw, run_virtual, say


class City(msgspec.Struct):
    name: str


@tool(read_only=True)
async def look_up(key: str) -> str:
    """Look something up."""
    return f"a {key}"


@tool
async def order(key: str) -> str:
    """Order something."""
    return f"ordered {key}"


def agent_of(*replies, **options):
    cache = options.pop("answers", None) or AnswerCache(ttl=60, scope="global")
    model = ScriptedModel([*replies, *["anew"] * 9], ttft=0.1)
    return Agent(model="m", endpoint=model, answers=cache, **options)


def asked_twice(agent, again="Capital of France?", **options):
    async def main():
        first = await agent.run("Capital of France?", **options)
        return first, await agent.run(again, **options)

    return run_virtual(main())


def test_the_same_question_takes_no_time_the_second_time():
    first, second = asked_twice(agent_of("Paris"), " capital of  france ?")
    assert (first.output, second.output) == ("Paris", "Paris")
    assert (first.trace.end_to_end_ms, second.trace.end_to_end_ms) == (100.0, 0.0)
    assert [stage.kind for stage in second.trace.stages][-2] == "cache"
    assert second.trace.facts["answer"].saved_ms == 100.0
    assert second.trace.attempts == []


def test_another_question_is_asked():
    _, second = asked_twice(agent_of("Paris", "Madrid"), "Capital of Spain?")
    assert second.output == "Madrid"


def test_a_reader_of_the_stream_is_told_the_kept_answer():
    async def main():
        agent = agent_of("Paris")
        await agent.run("Capital of France?")
        return [event async for event in agent.stream("Capital of France?")]

    *_, text, _, finished = run_virtual(main())
    assert text == TextDelta("Paris")
    assert isinstance(finished, RunFinished)
    assert finished.result.output == "Paris"


def test_a_kept_answer_has_the_type_that_is_asked_for():
    first, second = asked_twice(agent_of('{"name": "Paris"}', output=City))
    assert first.output == second.output == City("Paris")
    assert second.trace.attempts == []


def test_an_answer_from_reading_is_kept_and_one_from_acting_is_not():
    _, second = asked_twice(agent_of(call("look_up", key="x"), "It is a x.", tools=[look_up]))
    assert (second.output, second.trace.attempts) == ("It is a x.", [])
    _, second = asked_twice(agent_of(call("order", key="x"), "Done.", tools=[order]))
    assert second.output == "anew"


def test_each_user_has_their_own():
    cache = AnswerCache(ttl=60)
    agent = agent_of("one", "two", "three", answers=cache)

    async def main():
        whose = ("ann", "bob", "ann", "")
        return [(await agent.run("Who am I?", user=user)).output for user in whose]

    assert run_virtual(main()) == ["one", "two", "one", "three"]


@pytest.mark.parametrize("change", [{"instructions": "Be brief."}, {"tools": [look_up]}, {"output": City}])
def test_agents_that_would_answer_otherwise_share_nothing(change):
    cache = AnswerCache(ttl=60, scope="global")
    one = agent_of("Paris", answers=cache)
    other = agent_of('{"name": "Lutetia"}', answers=cache, **change)

    async def main():
        await one.run("Capital of France?")
        return await other.run("Capital of France?")

    assert len(run_virtual(main()).trace.attempts) == 1


def test_a_session_is_always_asked():
    agent = agent_of("Paris", "Paris again")

    async def main():
        await agent.run("Capital of France?")
        return await agent.session("s").run("Capital of France?")

    assert run_virtual(main()).output == "Paris again"


def test_nothing_is_kept_of_a_run_that_failed():
    agent = agent_of(raw(b"{}", status=400), "Paris", retries=0)

    async def main():
        with pytest.raises(Exception, match="400"):
            await agent.run("Capital of France?")
        return await agent.run("Capital of France?")

    assert run_virtual(main()).output == "Paris"


def test_only_an_answer_cache_will_do():
    with pytest.raises(ConfigError, match="make it with AnswerCache"):
        Agent(model="m", endpoint=ScriptedModel([say("x")]), answers=60)


@pytest.mark.parametrize("prompt", [None, 7, " "])
def test_a_prompt_without_text_is_refused_as_ever(prompt):
    with pytest.raises(ConfigError, match="give the model some text"):
        run_virtual(agent_of("Paris").run(prompt))


def test_an_answer_is_for_the_grants_that_its_run_had():
    agent = agent_of("one", "two", "three")

    async def main():
        first = [await agent.run("Capital?", grants=[f"account:{number}"]) for number in (1, 2)]
        again = await agent.run("Capital?", grants=["account:2"])
        return [len(result.trace.attempts) for result in (*first, again)]

    assert run_virtual(main()) == [1, 1, 0]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"max_turns": 1}, "No more than 1 turns may have calls."),
        ({"budget": Budget(total=0.3, answer_reserve=0.25)}, "Only the budget's answer reserve was left."),
    ],
)
def test_an_answer_that_was_forced_is_not_kept(options, why):
    first, second = asked_twice(agent_of(call("look_up", key="x"), "It may be x.", tools=[look_up], **options))
    assert (first.output, second.output) == ("It may be x.", "anew")
    assert first.trace.facts["stopped"] == why
    assert first.trace.facts["answer_not_kept"] == "the run was cut short"
