"""A way to ask the real model."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from hotloop.models.local.engine import LocalTransport
from hotloop.models.reply import Reply
from hotloop.models.transport import Throttle
from hotloop.models.wire.chatstream import ChatStream

ORDER_ID = {"type": "string", "pattern": "^[0-9]{8}$"}


class Recorder:
    """A receiver that keeps what it gets, and when."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = b""
        self.began = self.first = 0.0
        self.on_data: Callable[[], bool] = lambda: False

    def sent(self, connected: bool, throttle: Throttle | None) -> None:
        self.began = time.perf_counter()

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.status, self.headers = status, dict(headers)

    def data(self, chunk: bytes) -> bool:
        self.first = self.first or time.perf_counter()
        self.body += chunk
        return self.on_data()

    @property
    def frames(self) -> list[dict[str, Any]]:
        events = self.body.decode().split("\n\n")
        assert events[-2:] == ["data: [DONE]", ""]
        return [msgspec.json.decode(event.removeprefix("data: ")) for event in events[:-2]]

    @property
    def error(self) -> dict[str, Any]:
        return msgspec.json.decode(self.body)["error"]

    @property
    def reply(self) -> Reply:
        """What an agent reads."""
        stream = ChatStream()
        stream.feed(self.body)
        stream.close()
        return stream.reply()

    @property
    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        return [(call.name, msgspec.json.decode(call.arguments)) for call in self.reply.calls]

    @property
    def message(self) -> dict[str, Any]:
        """The reply as it is told in later requests."""
        calls = [
            {"id": f"c{place}", "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for place, call in enumerate(self.reply.calls)
        ]
        return {"role": "assistant", "content": self.reply.text or None} | ({"tool_calls": calls} if calls else {})


def offer(name: str, description: str = "", **properties: Any) -> dict[str, Any]:
    """An entry of `tools`, all of whose parameters are required."""
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


@pytest.fixture(scope="session")
def order_tools() -> list[dict[str, Any]]:
    return [
        offer("query_order_status", "Current status of an order, by its order number. 查询订单状态", order_id=ORDER_ID),
        offer(
            "query_logistics",
            "Where the parcel of an order is now: logistics, shipping, delivery. 查询订单的物流、快递、配送信息",
            order_id=ORDER_ID,
        ),
    ]


@pytest.fixture
def ask(local: LocalTransport) -> Callable[..., Any]:
    """Send a request made of keyword arguments."""

    async def ask(prompt: str = "", *, transport: LocalTransport = local, **body: Any) -> Recorder:
        recorder = Recorder()
        body = {"model": "smollm2", "messages": [{"role": "user", "content": prompt}]} | body
        await transport.send(msgspec.json.encode(body), recorder)
        return recorder

    return ask


@pytest.fixture(scope="session")
def make_offer() -> Callable[..., dict[str, Any]]:
    return offer


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()
