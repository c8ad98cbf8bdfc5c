"""pydantic-ai on an OpenAI chat model."""

from __future__ import annotations

from openai import AsyncOpenAI
from pydantic_ai import Agent, AgentRunResult, AgentRunResultEvent, PartDeltaEvent, PartStartEvent
from pydantic_ai.messages import ModelMessage, TextPart, TextPartDelta
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from workload import API_KEY, INSTRUCTIONS, Ask, Converse, OnText, Task


def build(task: Task) -> Ask:
    """An agent, and its streamed run."""
    agent = _agent(task)

    async def run(on_text: OnText) -> str:
        return (await _streamed(agent, task.question, [], on_text)).output

    return run


def converse(task: Task) -> Converse:
    """An agent, and its streamed runs on the messages of all before."""
    agent = _agent(task)
    history: list[ModelMessage] = []

    async def turn(prompt: str, on_text: OnText) -> str:
        nonlocal history
        result = await _streamed(agent, prompt, history, on_text)
        history = result.all_messages()
        return result.output

    return turn


def _agent(task: Task) -> Agent:
    client = AsyncOpenAI(base_url=task.base_url, api_key=API_KEY, max_retries=0)
    model = OpenAIChatModel(task.model, provider=OpenAIProvider(openai_client=client))
    return Agent(model, instructions=INSTRUCTIONS, tools=task.tools)


async def _streamed(agent: Agent, prompt: str, history: list[ModelMessage], on_text: OnText) -> AgentRunResult[str]:
    async with agent.run_stream_events(prompt, message_history=history) as events:
        async for event in events:
            match event:
                case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                    on_text(text)
                case PartStartEvent(part=TextPart(content=text)):
                    on_text(text)
                case AgentRunResultEvent(result=result):
                    found = result
    return found
