"""Haystack's agent with its OpenInference instrumentation."""

from __future__ import annotations

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage, StreamingChunk
from haystack.tools import tool
from haystack.utils import Secret
from openinference.instrumentation.haystack import HaystackInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from work import API_KEY, INSTRUCTIONS, MODEL, Task, Told, timed


def instrument(provider: TracerProvider) -> None:
    """As the documentation of OpenInference has it."""
    HaystackInstrumentor().instrument(tracer_provider=provider)


async def ask(task: Task) -> Told:
    """One run."""
    options = {"stream_options": {"include_usage": True}} if task.streamed else {}
    generator = OpenAIChatGenerator(
        model=MODEL, api_base_url=task.url, api_key=Secret.from_token(API_KEY), generation_kwargs=options
    )
    agent = Agent(chat_generator=generator, tools=[tool(each) for each in task.tools], system_prompt=INSTRUCTIONS)

    async def take(chunk: StreamingChunk) -> None:
        """Somebody reads."""

    callback = take if task.streamed else None
    with timed() as clock:
        result = await agent.run_async([ChatMessage.from_user(task.question)], streaming_callback=callback)
    replies = [each for each in result["messages"] if each.role == "assistant"]
    usages = [each.meta["usage"] for each in replies]
    return Told(
        len(replies),
        sum(each["prompt_tokens"] for each in usages),
        sum(each["completion_tokens"] for each in usages),
        replies[-1].text,
        seconds=clock.seconds,
    )
