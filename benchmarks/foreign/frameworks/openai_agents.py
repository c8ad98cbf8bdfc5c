"""openai-agents with the OpenInference bridge from its own tracing to OpenTelemetry."""

from __future__ import annotations

import asyncio
from typing import Any

from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrail,
    ModelSettings,
    OpenAIChatCompletionsModel,
    Runner,
    function_tool,
)
from openai import AsyncOpenAI
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from work import API_KEY, DESK, INSTRUCTIONS, MODEL, Task, Told, timed


def instrument(provider: TracerProvider) -> None:
    """As the documentation of OpenInference has it."""
    OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)


async def ask(task: Task) -> Told:
    """One run."""
    client = AsyncOpenAI(base_url=task.url, api_key=API_KEY)
    model = OpenAIChatCompletionsModel(MODEL, client)
    settings = ModelSettings(include_usage=True)
    tools = [function_tool(tool) for tool in task.tools]
    if task.scenario == "subagent":
        desk = Agent(name="carrier_desk", instructions=DESK, tools=tools, model=model, model_settings=settings)
        tools = [desk.as_tool("ask_carrier_desk", "Ask the carrier desk where a parcel is.")]
    agent = Agent(name="orders", instructions=INSTRUCTIONS, tools=tools, model=model, model_settings=settings)
    if task.scenario == "handoff":
        parcels = Agent(name="parcels", instructions=DESK, tools=tools, model=model, model_settings=settings)
        agent.tools, agent.handoffs = [], [parcels]
    if task.scenario == "guarded":
        agent.input_guardrails = [InputGuardrail(_is_about_orders)]
    with timed() as clock:
        if task.streamed:
            result = Runner.run_streamed(agent, task.question)
            async for _ in result.stream_events():
                pass
        else:
            result = await Runner.run(agent, task.question)
    usage = result.context_wrapper.usage
    return Told(usage.requests, usage.input_tokens, usage.output_tokens, result.final_output, seconds=clock.seconds)


async def _is_about_orders(*_: Any) -> GuardrailFunctionOutput:
    """A guardrail that takes its time, beside the first request."""
    await asyncio.sleep(0.03)
    return GuardrailFunctionOutput(None, tripwire_triggered=False)
