"""hotloop as a user has it: everything on."""

from __future__ import annotations

from workload import API_KEY, INSTRUCTIONS, Ask, OnText, Task

from hotloop import Agent, tool
from hotloop.events import TextDelta


def build(task: Task) -> Ask:
    """An agent, and its streamed run."""
    agent = Agent(
        model=task.model,
        endpoint=task.base_url,
        api_key=API_KEY,
        instructions=INSTRUCTIONS,
        tools=[tool(read_only=True)(function) for function in task.tools],
    )

    async def run(on_text: OnText) -> str:
        answer = []
        async for event in agent.stream(task.question):
            if isinstance(event, TextDelta):
                answer.append(event.text)
                on_text(event.text)
        return "".join(answer)

    return run
