"""No framework: a loop on the OpenAI SDK, whose requests OpenInference records, under a span of its own."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from openai import AsyncOpenAI
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from work import API_KEY, INSTRUCTIONS, MODEL, Task, Told, timed


def instrument(provider: TracerProvider) -> None:
    """As the documentation of OpenInference has it; the loop's own span goes to the global provider."""
    trace.set_tracer_provider(provider)
    OpenAIInstrumentor().instrument(tracer_provider=provider)


async def ask(task: Task) -> Told:
    """One run."""
    client = AsyncOpenAI(base_url=task.url, api_key=API_KEY)
    with timed() as clock, trace.get_tracer("shop").start_as_current_span("answer a customer"):
        told = await _loop(client, task)
    told.seconds = clock.seconds
    return told


async def _loop(client: AsyncOpenAI, task: Task) -> Told:
    tools = {tool.__name__: tool for tool in task.tools}
    messages: list[Any] = [
        {"role": "system", "content": INSTRUCTIONS},
        {"role": "user", "content": task.question},
    ]
    told = Told(0, 0, 0)
    while True:
        message, usage = await (_streamed if task.streamed else _whole)(client, messages, tools)
        told.requests += 1
        told.input_tokens += usage.prompt_tokens
        told.output_tokens += usage.completion_tokens
        if not message.get("tool_calls"):
            told.answer = message["content"]
            return told
        messages.append(message)
        messages += await asyncio.gather(*(_call(tools, call) for call in message["tool_calls"]))


async def _whole(client: AsyncOpenAI, messages: list[Any], tools: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    reply = await client.chat.completions.create(model=MODEL, messages=messages, tools=_schemas(tools))
    return reply.choices[0].message.model_dump(exclude_none=True), reply.usage


async def _streamed(client: AsyncOpenAI, messages: list[Any], tools: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    text, calls, usage = "", {}, None
    stream = await client.chat.completions.create(
        model=MODEL, messages=messages, tools=_schemas(tools), stream=True, stream_options={"include_usage": True}
    )
    async for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for part in choice.delta.tool_calls or ():
                call = calls.setdefault(part.index, {"id": part.id, "type": "function", "function": {"arguments": ""}})
                call["function"]["name"] = part.function.name or call["function"].get("name")
                call["function"]["arguments"] += part.function.arguments or ""
    message = {"role": "assistant", "content": text}
    return message | ({"tool_calls": list(calls.values())} if calls else {}), usage


async def _call(tools: dict[str, Any], call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    result = await tools[function["name"]](**json.loads(function["arguments"]))
    return {"role": "tool", "tool_call_id": call["id"], "content": result}


def _schemas(tools: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "function", "function": {"name": name, "description": tool.__doc__, "parameters": _schema(tool)}}
        for name, tool in tools.items()
    ]


def _schema(tool: Any) -> dict[str, Any]:
    names = [name for name in tool.__annotations__ if name != "return"]
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": names}
