"""agno with its OpenInference instrumentation."""

from __future__ import annotations

from agno.agent import Agent
from agno.models.openai import OpenAILike
from openinference.instrumentation.agno import AgnoInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from work import API_KEY, INSTRUCTIONS, MODEL, Task, Told, timed


def instrument(provider: TracerProvider) -> None:
    """As the documentation of OpenInference has it."""
    AgnoInstrumentor().instrument(tracer_provider=provider)


async def ask(task: Task) -> Told:
    """One run."""
    model = OpenAILike(id=MODEL, base_url=task.url, api_key=API_KEY)
    agent = Agent(name="orders", model=model, tools=task.tools, instructions=INSTRUCTIONS, telemetry=False)
    with timed() as clock:
        if task.streamed:
            async for event in agent.arun(task.question, stream=True, yield_run_output=True):
                result = event
        else:
            result = await agent.arun(task.question)
    counted = result.metrics
    return Told(None, counted.input_tokens, counted.output_tokens, result.content, seconds=clock.seconds)
