"""agno on an OpenAI chat model, its telemetry off."""

from __future__ import annotations

from agno.agent import Agent
from agno.models.openai import OpenAIChat
from workload import API_KEY, INSTRUCTIONS, Ask, OnText, Task


def build(task: Task) -> Ask:
    """An agent, and its streamed run."""
    model = OpenAIChat(id=task.model, base_url=task.base_url, api_key=API_KEY)
    agent = Agent(model=model, tools=task.tools, instructions=INSTRUCTIONS, telemetry=False)

    async def run(on_text: OnText) -> str:
        answer = []
        async for event in agent.arun(task.question, stream=True):
            if event.event == "RunContent" and event.content:
                answer.append(event.content)
                on_text(event.content)
        return "".join(answer)

    return run
