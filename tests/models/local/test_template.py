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

QUESTION = {"role": "user", "content": "What is the status of order 20250101?"}
CALL = {"name": "query_order_status", "arguments": '{"order_id": "20250102"}'}
CALLED_BEFORE: list[dict[str, Any]] = [  # after which even a small model calls again
    {"role": "user", "content": "What is the status of order 20250102?"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": CALL}]},
    {"role": "tool", "tool_call_id": "c", "content": "shipped"},
    {"role": "assistant", "content": "It is shipped."},
]


@pytest.fixture(scope="module")
def plain(weights: Path) -> Iterator[LocalTransport]:
    """A model given by its path, whose template knows no tools."""
    transport = LocalTransport(str(weights), threads=1)
    yield transport
    asyncio.run(transport.aclose())


async def test_a_model_may_call_and_is_held_to_the_schema(ask: Ask, plain: LocalTransport, order_tools: Tools) -> None:
    asked = {"messages": [*CALLED_BEFORE, QUESTION], "tools": order_tools, "max_tokens": 400, "temperature": 0}
    got = await ask(transport=plain, **asked)
    assert 1 <= len(got.calls) <= 8
    for name, arguments in got.calls:
        assert name in ("query_order_status", "query_logistics")
        assert arguments == {"order_id": "20250101"}
    assert got.reply.finish_reason == "tool_calls"


async def test_a_model_may_choose_text_and_end_it(ask: Ask, plain: LocalTransport, order_tools: Tools) -> None:
    got = await ask("Good morning!", transport=plain, tools=order_tools, max_tokens=200, temperature=0)
    assert got.reply.text
    assert got.reply.finish_reason == "stop"


async def test_without_tools_a_model_just_talks(ask: Ask, plain: LocalTransport) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is the capital of France?"},
    ]
    got = await ask(messages=messages, transport=plain, max_tokens=30, temperature=0)
    assert "Paris" in got.reply.text


async def test_only_the_newest_turn_is_evaluated(ask: Ask, plain: LocalTransport, order_tools: Tools) -> None:
    asked = {"transport": plain, "tools": order_tools, "temperature": 0, "max_tokens": 60}
    first = (await ask(messages=[QUESTION], **asked)).reply
    messages = [QUESTION, {"role": "assistant", "content": first.text}, {"role": "user", "content": "Thank you!"}]
    second = (await ask(messages=messages, **asked)).reply
    assert second.usage.cached_tokens >= first.usage.input_tokens


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
