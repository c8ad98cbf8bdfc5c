"""Warnings at run time: whom they concern, whom they do not, and what being watched costs."""

from __future__ import annotations

import json
import logging
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from bodies import offered
from hotloop import Agent
from hotloop.context.conversation import Conversation
from hotloop.models.dialects import DIALECTS
from hotloop.models.prefix.watch import PrefixWatch
from hotloop.models.request import RequestTemplate
from hotloop.testing import ScriptedModel, run_virtual
from hotloop.trace.ledger import Usage

LONG = "You are a helpful assistant of a shop. " * 40
NAMES = ["alpha", "beta", "gamma"]


def front(names=NAMES, **options) -> bytes:
    tools = [json.dumps(offered(name, "What it does, at length. " * 20)).encode() for name in names]
    return RequestTemplate("m", DIALECTS["vllm"], tools, **options).front


def conversation(instructions: str = LONG, prompt: str = "Hi") -> Conversation:
    started = Conversation.of(instructions)
    started.user(prompt)
    return started


class Watched:
    """A watch, and what it says of prompts."""

    def __init__(self, dialect: str = "vllm") -> None:
        self.watch = PrefixWatch(DIALECTS[dialect], "m at example.com")

    def told(self, instructions: str = LONG, names=NAMES, agent: str = "shop", **options) -> str:
        return self.watch.seen(agent, front(names, **options), conversation(instructions).messages)


@pytest.fixture
def watched():
    return Watched()


@pytest.fixture
def warnings(caplog):
    """What was logged so far."""
    caplog.set_level(logging.WARNING, "hotloop.prefix")
    return lambda: caplog.messages


def test_a_clock_in_the_instructions_is_told_once(watched, warnings):
    told = [watched.told(f"It is 10:00:0{second}. {LONG}") for second in range(6)]
    assert [bool(each) for each in told] == [False, True, False, False, False, False]
    assert "It looks like a clock" in told[1]
    assert warnings() == [f"Prompts of the agent shop of m at example.com: {told[1]}"]


def test_each_cause_is_told(watched, warnings):
    watched.told()
    assert "another order" in watched.told(names=[*reversed(NAMES)])
    watched.told(f"As of 10:00. {LONG}")
    assert "clock" in watched.told(f"As of 10:01. {LONG}")
    assert len(warnings()) == 2


def test_the_tools_in_another_order(watched):
    watched.told()
    told = watched.told(names=["alpha", "gamma", "beta"])
    assert told.startswith("The prompts diverge at byte ")
    assert "tools[1].function.name (gamma)" in told


def test_a_clock_is_found_between_prompts_of_other_agents_without_a_name(watched):
    others = ["Write SQL. " * 60, "Be a judge. " * 60]
    told = []
    for minute in range(3):
        told += [watched.told(f"It is 10:0{minute}. {LONG}", agent=""), *(watched.told(o, agent="") for o in others)]
    assert [place for place, each in enumerate(told) if each] == [3]


@pytest.mark.parametrize(
    "prompts",
    [
        [{"instructions": f"{name} speaks here. {LONG}"} for name in ("Ann", "Bob", "Cleo")] * 5,
        [{"instructions": f"You are worker {number} of 9. {LONG}"} for number in range(9)] * 3,
        [{"names": NAMES[:count]} for count in (1, 2, 3)] * 3,  # a shortlist for each conversation
        [{"temperature": value} for value in (0.1, 0.2, 0.3)],
        [{"agent": "one"}, {"agent": "two", "instructions": f"10:01 {LONG}"}],
        [{"instructions": f"10:0{minute}"} | {"names": []} for minute in range(5)],  # too short to matter
        [{"instructions": ""}, {}, {"instructions": ""}],
    ],
)
def test_what_is_meant_is_not_told(watched, warnings, prompts):
    assert [watched.told(**prompt) for prompt in prompts] == [""] * len(prompts)
    assert warnings() == []


def test_instructions_that_are_others_for_everyone(watched, warnings):
    told = [watched.told(f"You serve customer {chr(65 + n // 26)}{chr(97 + n % 26)}. {LONG}") for n in range(200)]
    (only,) = filter(None, told)
    assert "What changes from request to request" in only
    assert len(warnings()) == 1


def test_a_prompt_too_short_for_the_cache_of_its_service():
    watched = Watched("openai")
    told = [watched.told(f"10:0{minute} {LONG}", names=[]) for minute in range(3)]  # about 400 tokens, not 1,024
    assert told == ["", "", ""]
    watched = Watched("openai")
    assert any(watched.told(f"10:0{minute} {LONG * 4}", names=[]) for minute in range(3))


def goes_on(conversation: Conversation, prompt: str) -> Conversation:
    conversation = conversation.branch()
    conversation.answer("An answer. " * 100)
    conversation.user(prompt)
    return conversation


def test_a_session_whose_history_was_changed(watched, warnings):
    first = conversation(prompt="One")
    second = goes_on(first, "Two")
    third = goes_on(second, "Three")
    cut = Conversation.of(LONG)
    cut.answer("An answer. " * 100)
    cut.user("Two")
    cut = goes_on(cut, "Three")
    seen = [watched.watch.seen("shop", front(), each.messages, "s") for each in (first, second, second, third)]
    assert seen == ["", "", "", ""]
    assert "Messages were taken out" in watched.watch.seen("shop", front(), goes_on(cut, "Four").messages, "s")
    assert watched.watch.seen("shop", front(), second.messages, "another") == ""
    assert len(warnings()) == 1


def test_a_run_that_failed_leaves_its_session_as_it_was(watched, warnings):
    start = conversation()
    failed, retried = goes_on(start, "This fails. " * 200), goes_on(start, "This works. " * 200)
    seen = [watched.watch.seen("shop", front(), each.messages, "s") for each in (start, failed, retried)]
    assert seen == ["", "", ""]


def test_long_histories_are_not_all_remembered(watched):
    said = conversation(prompt="A long paper. " * 20_000)
    for number in range(20):
        watched.watch.seen("shop", front(), said.branch().messages, f"session {number}")
    assert sum(map(len, watched.watch._sessions.values())) <= 2 << 20
    changed = conversation(prompt="Another one. " * 20_000)
    changed.answer("An answer.")
    changed.user("Next")
    edited = [bool(watched.watch.seen("shop", front(), changed.messages, f"session {n}")) for n in (0, 19)]
    assert edited == [False, False]


def test_what_is_remembered_is_bounded(watched):
    template = front()
    for number in range(1000):
        messages = conversation(f"Text {number}: {LONG}").messages
        watched.watch.seen(f"agent {number % 300}", template, messages, f"session {number}")
    assert len(watched.watch._agents) <= 64
    assert len(watched.watch._sessions) <= 64
    assert all(len(agent.heads) <= 4 and len(agent.hashes) <= 64 for agent in watched.watch._agents.values())


def test_a_service_that_stops_using_its_cache(watched, warnings):
    watch = watched.watch
    cached = [Usage(2000, 10, 0), Usage(2100, 10, 1984), Usage(2300, 10, 0)]
    assert watch.reported(None, cached[0]) == ""
    assert watch.reported(cached[0], cached[2]) == ""  # it never said that it has a cache
    assert watch.reported(cached[0], cached[1]) == ""
    told = watch.reported(cached[1], cached[2])
    assert told.startswith("None of the prompt's tokens came from the cache, though its first 2,100 had just")
    assert watch.reported(cached[1], cached[2]) == told
    assert warnings() == [f"A prompt of m at example.com: {told}"]


@pytest.mark.parametrize(
    ("before", "usage"),
    [(None, Usage(2000, 1, 0)), (Usage(90, 1), Usage(100, 1, 0)), (Usage(2000, 1), Usage(2100, 1, None))],
)
def test_what_tells_nothing_about_the_cache(watched, before, usage):
    watched.watch.reported(Usage(2000), Usage(2100, 1, 1984))
    assert watched.watch.reported(before, usage) == ""


@pytest.fixture
def hasty_threads():
    """Threads take turns all the time."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("hasty_threads")
def test_prompts_are_seen_from_several_threads_at_once(watched):
    template = front([])
    prompts = [conversation(f"You are agent {number}.").messages for number in range(12)]

    def see(thread: int) -> list[str]:
        return [
            watched.watch.seen(f"agent {number % 100}", template, prompts[number * thread % 12], f"session {number}")
            for number in range(3000)
        ]

    with ThreadPoolExecutor(4) as threads:
        assert set().union(*threads.map(see, range(1, 5))) == {""}


def test_agents_that_are_made_anew_with_a_clock_are_told_of_it(warnings):
    async def main():
        model = ScriptedModel(lambda request: "Hello.")
        agents = [
            Agent(model="m", endpoint=model, name="shop", instructions=f"At 10:0{minute}. {LONG}")
            for minute in range(3)
        ]
        return [(await agent.run("Hi")).trace for agent in agents]

    first, second, third = run_virtual(main())
    assert "warnings" not in first.facts
    (told,) = second.facts["warnings"]
    assert "It looks like a clock" in told
    assert "warnings" not in third.facts
    assert warnings() == [f"Prompts of the agent shop of ScriptedModel: {told}"]
