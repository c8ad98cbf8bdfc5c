"""pydantic-ai on an OpenAI chat model."""

from __future__ import annotations

from openai import AsyncOpenAI
from pydantic_ai import Agent, AgentRunResultEvent, PartDeltaEvent, PartStartEvent
from pydantic_ai.messages import TextPart, TextPartDelta
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from workload import API_KEY, INSTRUCTIONS, Ask, OnText, Task


def build(task: Task) -> Ask:
    """An agent, and its streamed run."""
    client = AsyncOpenAI(base_url=task.base_url, api_key=API_KEY, max_retries=0)
    model = OpenAIChatModel(task.model, provider=OpenAIProvider(openai_client=client))
    agent = Agent(model, instructions=INSTRUCTIONS, tools=task.tools)

    async def run(on_text: OnText) -> str:
        answer = ""
        async with agent.run_stream_events(task.question) as events:
            async for event in events:
                match event:
                    case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                        on_text(text)
                    case PartStartEvent(part=TextPart(content=text)):
                        on_text(text)
                    case AgentRunResultEvent(result=result):
                        answer = result.output
        return answer

    return run
