"""openai-agents on chat completions, its tracing off."""

from __future__ import annotations

from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
from workload import API_KEY, INSTRUCTIONS, Ask, OnText, Task


def build(task: Task) -> Ask:
    """An agent, and its streamed run."""
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=task.base_url, api_key=API_KEY, max_retries=0)
    agent = Agent(
        name="support",
        instructions=INSTRUCTIONS,
        tools=[function_tool(tool) for tool in task.tools],
        model=OpenAIChatCompletionsModel(task.model, client),
        model_settings=ModelSettings(include_usage=True),
    )

    async def run(on_text: OnText) -> str:
        result = Runner.run_streamed(agent, task.question, max_turns=20)
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                on_text(event.data.delta)
        return result.final_output

    return run
