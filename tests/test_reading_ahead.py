"""Agents that have early results read ahead while later tools run."""

from __future__ import annotations

import asyncio
import logging

import pytest

from hotloop import Agent, Model, Router, tool
from hotloop.errors import ConnectError
from hotloop.lab.profiles import Curve, Profile
from hotloop.lab.simtransport import SimulatedTransport
from hotloop.testing import call, run_virtual

SERVER = Profile(
    name="a millisecond a prompt token",
    kind="gpu",
    base_ms=5.0,
    per_prompt_token_ms=1.0,
    tpot_ms=Curve(10.0),
    slots=4,
    cache_block=1,
    dialect="llamacpp",
    reports=True,
)
LONG, SHORT = "moved on. " * 1000, "moved on."


def a_tool(name, seconds, result):
    async def function(number: int) -> str:
        await asyncio.sleep(seconds)
        return f"{number}: {result}"

    return tool(function, name=name, description=name, read_only=True)


def runs(early, late, *, dialect="llamacpp", times=8, **options):
    """The traces of runs whose reply calls a quick tool with the result `early`, then one of 5 s with `late`."""
    tools = [a_tool("quick", 0.05, early), a_tool("slow", 5.0, late)]

    async def main():
        service = SimulatedTransport([[call("quick", number=1), call("slow", number=1)], "Done."], profile=SERVER)
        async with Agent(model="m", endpoint=service, dialect=dialect, tools=tools, **options) as agent:
            return [(await agent.run(f"Question {number}")).trace for number in range(times)]

    return run_virtual(main())


def prefills(trace):
    return [facts for facts in trace.attempts if facts.why == "prefill"]


def test_a_long_early_result_is_read_while_a_slow_tool_runs():
    first, *_, last = runs(LONG, SHORT, speculate=True)
    assert prefills(first) == []
    assert [facts.outcome for facts in prefills(last)] == ["ok"]
    assert last.turns[1].ttft < 0.2 * first.turns[1].ttft
    assert last.turns[1].usage.cached_tokens > 2000
    assert last.usage.input_tokens > first.usage.input_tokens + 2000
    assert last.unattributed_ms == 0.0


@pytest.mark.parametrize(
    ("early", "late", "options"),
    [
        (LONG, SHORT, {}),
        (SHORT, SHORT, {"speculate": True}),
        (SHORT, LONG, {"speculate": True}),
        (LONG, SHORT, {"speculate": True, "dialect": "openai"}),
    ],
    ids=["not asked for", "too short", "too late", "refused by the service"],
)
def test_nothing_is_sent_where_it_would_not_help(early, late, options):
    assert all(prefills(trace) == [] for trace in runs(early, late, **options))


class Down:
    """A service that nobody reaches."""

    async def send(self, body, receiver):
        raise ConnectError("It is down.")

    async def warm(self, connections=1): ...

    async def aclose(self): ...


def declared(service, how):
    """The arguments of an agent that asks this service by way of a fallback or of a router."""
    model = Model(name="m", endpoint=service, dialect="llamacpp")
    down = Model(name="down", endpoint=Down(), dialect="vllm")
    if how == "fallback":
        return {"model": down, "fallback": [model], "retries": 0}
    return {"model": Router(models={"down": down, "m": model}, default="m")}


@pytest.mark.parametrize("how", ["fallback", "router"])
def test_it_is_read_by_the_service_that_has_answered(how):
    tools = [a_tool("quick", 0.05, LONG), a_tool("slow", 5.0, SHORT)]

    async def main():
        service = SimulatedTransport([[call("quick", number=1), call("slow", number=1)], "Done."], profile=SERVER)
        async with Agent(**declared(service, how), tools=tools, speculate=True) as agent:
            return [(await agent.run(f"Question {number}")).trace for number in range(8)]

    first, *_, last = run_virtual(main())
    assert [(facts.model, facts.outcome) for facts in prefills(last)] == [("m", "ok")]
    assert last.turns[1].ttft < 0.2 * first.turns[1].ttft


@pytest.mark.parametrize(("dialect", "warned"), [("openai", True), ("generic", True), ("llamacpp", False)])
def test_it_is_told_where_it_has_no_effect(caplog, dialect, warned):
    caplog.set_level(logging.WARNING, "hotloop")
    Agent(model="m", endpoint="http://127.0.0.1:9/v1", dialect=dialect, speculate=True)
    assert [dialect in message and "speculate=True has no effect" in message for message in caplog.messages] == (
        [True] if warned else []
    )
