"""Agents with a budget, in virtual time: tools that take their time, and what became of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from hotloop import Agent, Budget, Trace, tool
from hotloop.errors import HotloopError
from hotloop.testing import ScriptedModel, run_virtual

working: set[str] = set()  # what is at work


@tool(read_only=True)
async def look(key: str, ms: int = 300) -> str:
    """Read something that takes its time."""
    working.add(key)
    try:
        await asyncio.sleep(ms / 1000)
    finally:
        working.discard(key)
    return f"{key} found"


@tool(read_only=True, optional=True)
async def reviews(key: str, ms: int = 300) -> str:
    """What others say of it."""
    await asyncio.sleep(ms / 1000)
    return f"{key} is good"


class Slow:
    """A transport that takes time to connect, and counts what is under way."""

    def __init__(self, model: ScriptedModel, connect: float = 0.0) -> None:
        self.model = model
        self.connect = connect
        self.open = 0

    async def send(self, body: bytes, receiver: Any) -> None:
        self.open += 1
        try:
            await asyncio.sleep(self.connect)
            await self.model.send(body, receiver)
        finally:
            self.open -= 1

    async def warm(self, connections: int = 1) -> None: ...

    async def aclose(self) -> None: ...


def agent_of(script: Any, budget: Budget | None, *, ttft: float = 0.1, tpot: float = 0.01, **options: Any) -> Agent:
    """An agent whose model says this, each reply 100 ms until its first token and then 10 ms a token."""
    endpoint = options.pop("endpoint", None) or ScriptedModel(script, ttft=ttft, tpot=tpot)
    return Agent(model="m", endpoint=endpoint, budget=budget, tools=options.pop("tools", [look, reviews]), **options)


def ended(agent: Agent, **options: Any) -> tuple[Any, Trace]:
    """The answer of a run in virtual time, or its error; and its trace."""
    try:
        result = run_virtual(agent.run("go", **options))
    except HotloopError as error:
        return error, error.trace
    return result.output, result.trace


def degraded(trace: Trace) -> list[tuple[str, str, float]]:
    """What was done to save time, for which limit, and when."""
    return [(each["what"], each["row"], each["at_ms"]) for each in trace.facts.get("degraded", ())]


def contents(request: dict[str, Any], role: str) -> Sequence[Any]:
    """What the messages of this role say."""
    return [message["content"] for message in request["messages"] if message["role"] == role]
