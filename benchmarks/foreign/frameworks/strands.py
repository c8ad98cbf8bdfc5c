"""strands-agents with its own instrumentation."""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from strands import Agent, tool
from strands.models.openai import OpenAIModel
from work import API_KEY, INSTRUCTIONS, MODEL, Task, Told, timed


def instrument(provider: TracerProvider) -> None:
    """It traces into the global provider."""
    trace.set_tracer_provider(provider)


async def ask(task: Task) -> Told:
    """One run."""
    model = OpenAIModel(client_args={"base_url": task.url, "api_key": API_KEY}, model_id=MODEL)
    tools = [tool(each) for each in task.tools]
    agent = Agent(name="orders", model=model, tools=tools, system_prompt=INSTRUCTIONS, callback_handler=None)
    with timed() as clock:
        result = await agent.invoke_async(task.question)
    usage, cycles = result.metrics.accumulated_usage, result.metrics.cycle_count
    return Told(cycles, usage["inputTokens"], usage["outputTokens"], str(result).strip(), seconds=clock.seconds)
