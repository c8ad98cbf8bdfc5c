"""hotloop as a user has it: everything on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from workload import API_KEY, INSTRUCTIONS, Ask, Converse, OnText, Task

from hotloop import Agent, tool
from hotloop.events import Event, TextDelta


def build(task: Task) -> Ask:
    """An agent, and its streamed run."""
    agent = _agent(task)

    async def run(on_text: OnText) -> str:
        return await _answer(agent.stream(task.question), on_text)

    return run


def converse(task: Task) -> Converse:
    """An agent, and the streamed runs of a session."""
    session = _agent(task, sessions=":memory:").session("benchmark")

    async def turn(prompt: str, on_text: OnText) -> str:
        return await _answer(session.stream(prompt), on_text)

    return turn


def _agent(task: Task, **options: Any) -> Agent:
    return Agent(
        model=task.model,
        endpoint=task.base_url,
        api_key=API_KEY,
        instructions=INSTRUCTIONS,
        tools=[tool(read_only=True)(function) for function in task.tools],
        **options,
    )


async def _answer(events: AsyncIterator[Event], on_text: OnText) -> str:
    answer = []
    async for event in events:
        if isinstance(event, TextDelta):
            answer.append(event.text)
            on_text(event.text)
    return "".join(answer)
