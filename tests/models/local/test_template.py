"""Any other model: asked in its own template, free to choose between calls and text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hotloop.models.local.engine import LocalTransport
from hotloop.models.local.request import read_request
from hotloop.models.local.template import prepare

Ask = Callable[..., Any]
Tools = list[dict[str, Any]]

QUESTION = "What is the status of order 20250101?"


@pytest.fixture(scope="module")
def plain(weights: Path) -> Iterator[LocalTransport]:
    """A model given by its path, whose template knows no tools."""
    transport = LocalTransport(str(weights))
    yield transport
    asyncio.run(transport.aclose())


async def test_a_demanded_call_is_held_to_its_schema(ask: Ask, plain: LocalTransport, order_tools: Tools) -> None:
    reply = await ask(QUESTION, transport=plain, tools=order_tools, tool_choice="required", max_tokens=200, seed=1)
    assert {name for name, _ in reply.calls} <= {"query_order_status", "query_logistics"}
    assert all(len(arguments["order_id"]) == 8 for _, arguments in reply.calls)
    assert reply.json["choices"][0]["finish_reason"] in ("tool_calls", "length")
    assert reply.calls


async def test_a_model_may_choose_text_and_end_it(ask: Ask, plain: LocalTransport, order_tools: Tools) -> None:
    reply = await ask("Good morning!", transport=plain, tools=order_tools, max_tokens=200, temperature=0)
    assert reply.json["choices"][0]["message"]["content"]
    assert reply.json["choices"][0]["finish_reason"] == "stop"


async def test_without_tools_a_model_just_talks(ask: Ask, plain: LocalTransport) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is the capital of France?"},
    ]
    reply = await ask(messages=messages, transport=plain, max_tokens=30, temperature=0)
    assert "Paris" in reply.json["choices"][0]["message"]["content"]


async def test_only_the_newest_turn_is_evaluated(ask: Ask, plain: LocalTransport, order_tools: Tools) -> None:
    asked = {"transport": plain, "tools": order_tools, "temperature": 0, "max_tokens": 60}
    messages = [{"role": "user", "content": QUESTION}]
    first = (await ask(messages=messages, tool_choice="required", **asked)).json
    message = first["choices"][0]["message"]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "shipped"} for call in message["tool_calls"]]
    second = (await ask(messages=[*messages, message, *results], **asked)).json
    cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached >= first["usage"]["prompt_tokens"]


def test_results_come_from_the_user_and_tools_are_described(order_tools: Tools) -> None:
    called = {"id": "c", "type": "function", "function": {"name": "query_logistics", "arguments": '{"order_id": "1"}'}}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Where?"},
        {"role": "assistant", "content": None, "tool_calls": [called, called]},
        {"role": "tool", "tool_call_id": "c", "content": "Oslo"},
        {"role": "tool", "tool_call_id": "c", "content": "Rome"},
    ]
    request = read_request(msgspec.json.encode({"messages": messages, "tools": order_tools}))
    system, *others = prepare(request, (2,)).body["messages"]
    assert system["content"].startswith("Be brief.\n\nYou have these tools")
    assert "query_logistics {" in system["content"]
    line = 'query_logistics {"order_id": "1"}'
    assert others == [
        {"role": "user", "content": "Where?"},
        {"role": "assistant", "content": f"{line}\n{line}"},
        {"role": "user", "content": "Results:\nOslo\nRome"},
    ]
