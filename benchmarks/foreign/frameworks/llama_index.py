"""LlamaIndex's function agent with its OpenInference instrumentation."""

from __future__ import annotations

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai_like import OpenAILike
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from work import API_KEY, INSTRUCTIONS, MODEL, Task, Told, timed


def instrument(provider: TracerProvider) -> None:
    """As the documentation of OpenInference has it."""
    LlamaIndexInstrumentor().instrument(tracer_provider=provider)


async def ask(task: Task) -> Told:
    """One run; the agent streams from the model, and counts no tokens."""
    model = OpenAILike(
        model=MODEL, api_base=task.url, api_key=API_KEY, is_chat_model=True, is_function_calling_model=True
    )
    agent = FunctionAgent(name="orders", tools=task.tools, llm=model, system_prompt=INSTRUCTIONS)
    with timed() as clock:
        result = await agent.run(task.question)
    return Told(answer=str(result), seconds=clock.seconds)
