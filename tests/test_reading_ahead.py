"""Agents that have early results read ahead while later tools run."""

from __future__ import annotations

import asyncio

import pytest

from hotloop import Agent, tool
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
