"""Haystack's agent on its OpenAI chat generator."""

from __future__ import annotations

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage, StreamingChunk
from haystack.tools import tool
from haystack.utils import Secret
from workload import API_KEY, INSTRUCTIONS, Ask, OnText, Task


def build(task: Task) -> Ask:
    """An agent, and its streamed run."""
    generator = OpenAIChatGenerator(
        model=task.model, api_base_url=task.base_url, api_key=Secret.from_token(API_KEY), max_retries=0
    )
    agent = Agent(
        chat_generator=generator, tools=[tool(function) for function in task.tools], system_prompt=INSTRUCTIONS
    )

    async def run(on_text: OnText) -> str:
        async def take(chunk: StreamingChunk) -> None:
            if chunk.content:
                on_text(chunk.content)

        result = await agent.run_async([ChatMessage.from_user(task.question)], streaming_callback=take)
        return result["messages"][-1].text

    return run
