"""openai-agents on chat completions, its tracing off."""

from __future__ import annotations

from typing import Any

from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from agents.result import RunResultStreaming
from openai import AsyncOpenAI
from workload import API_KEY, INSTRUCTIONS, Ask, Converse, OnText, Task


def build(task: Task) -> Ask:
    """An agent, and its streamed run."""
    agent = _agent(task)

    async def run(on_text: OnText) -> str:
        return (await _streamed(agent, task.question, on_text)).final_output

    return run


def converse(task: Task) -> Converse:
    """An agent, and its streamed runs on the list of all there was, which is leaner than its sessions in memory."""
    agent = _agent(task)
    history: list[Any] = []

    async def turn(prompt: str, on_text: OnText) -> str:
        nonlocal history
        result = await _streamed(agent, [*history, {"role": "user", "content": prompt}], on_text)
        history = result.to_input_list()
        return result.final_output

    return turn


def _agent(task: Task) -> Agent:
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=task.base_url, api_key=API_KEY, max_retries=0)
    return Agent(
        name="support",
        instructions=INSTRUCTIONS,
        tools=[function_tool(tool) for tool in task.tools],
        model=OpenAIChatCompletionsModel(task.model, client),
        model_settings=ModelSettings(include_usage=True),
    )


async def _streamed(agent: Agent, asked: str | list[Any], on_text: OnText) -> RunResultStreaming:
    result = Runner.run_streamed(agent, asked, max_turns=20)
    async for event in result.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            on_text(event.data.delta)
    return result
