"""The same bare loop on the OpenAI SDK: messages are dicts, one gather per round of tools."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from openai import AsyncOpenAI
from workload import API_KEY, INSTRUCTIONS, Ask, OnText, Task, schema


def build(task: Task) -> Ask:
    """A loop on one client."""
    client = AsyncOpenAI(base_url=task.base_url, api_key=API_KEY, max_retries=0)
    tools = {tool.__name__: tool for tool in task.tools}
    schemas: list[Any] = [schema(tool) for tool in task.tools]

    async def run(on_text: OnText) -> str:
        messages: list[Any] = [
            {"role": "system", "content": INSTRUCTIONS},
            {"role": "user", "content": task.question},
        ]
        while True:
            stream = await client.chat.completions.create(
                model=task.model,
                messages=messages,
                tools=schemas,
                stream=True,
                stream_options={"include_usage": True},
            )
            message = await assemble(stream, on_text)
            if "tool_calls" not in message:
                return message["content"]
            messages += [message, *await asyncio.gather(*map(call_tool, message["tool_calls"]))]

    async def call_tool(call: dict[str, Any]) -> dict[str, Any]:
        function = call["function"]
        result = await tools[function["name"]](**json.loads(function["arguments"]))
        return {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)}

    return run


async def assemble(stream: Any, on_text: OnText) -> dict[str, Any]:
    """The message that the chunks add up to."""
    text: list[str] = []
    calls: list[dict[str, Any]] = []
    async for chunk in stream:
        if not chunk.choices:
            continue
        delta = chunk.choices[0].delta
        if delta.content:
            text.append(delta.content)
            on_text(delta.content)
        for call in delta.tool_calls or ():
            if call.index == len(calls):
                function = {"name": call.function.name, "arguments": ""}
                calls.append({"id": call.id, "type": "function", "function": function})
            calls[call.index]["function"]["arguments"] += call.function.arguments or ""
    message: dict[str, Any] = {"role": "assistant", "content": "".join(text) or None}
    return message | {"tool_calls": calls} if calls else message
