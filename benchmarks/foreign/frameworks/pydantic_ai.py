"""pydantic-ai with its own instrumentation, and that of its HTTP client."""

from __future__ import annotations

from opentelemetry.instrumentation.httpx import HTTPX2ClientInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from pydantic_ai import Agent, RunContext, RunUsage
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from work import API_KEY, DESK, INSTRUCTIONS, MODEL, Task, Told, timed


def instrument(provider: TracerProvider) -> None:
    """As the documentation of pydantic-ai has it for any OpenTelemetry backend."""
    Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))
    HTTPX2ClientInstrumentor().instrument(tracer_provider=provider)


async def ask(task: Task) -> Told:
    """One run."""
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=task.url, api_key=API_KEY))
    if task.scenario == "subagent":
        agent = _with_subagent(model, task)
    else:
        agent = Agent(model, name="orders", instructions=INSTRUCTIONS, tools=task.tools)
    with timed() as clock:
        answer, usage = await (_streamed if task.streamed else _whole)(agent, task.question)
    return Told(usage.requests, usage.input_tokens, usage.output_tokens, answer, seconds=clock.seconds)


async def _whole(agent: Agent, question: str) -> tuple[str, RunUsage]:
    result = await agent.run(question)
    return result.output, result.usage


async def _streamed(agent: Agent, question: str) -> tuple[str, RunUsage]:
    async with agent.run_stream(question) as streamed:
        return await streamed.get_output(), streamed.usage


def _with_subagent(model: OpenAIChatModel, task: Task) -> Agent:
    desk = Agent(model, name="carrier_desk", instructions=DESK, tools=task.tools)
    agent = Agent(model, name="orders", instructions=INSTRUCTIONS)

    @agent.tool
    async def ask_carrier_desk(context: RunContext[None], parcel: str) -> str:
        """Ask the carrier desk where a parcel is.

        Args:
            parcel: The parcel's number.
        """
        return (await desk.run(f"Where is the parcel {parcel}?", usage=context.usage)).output

    return agent
