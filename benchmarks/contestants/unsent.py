"""hotloop without a network: the request is dropped and the reply is there at once; what is left is hotloop itself."""

from __future__ import annotations

from itertools import count

import httptools
import service
from workload import INSTRUCTIONS, Converse, OnText, Task

from hotloop import Agent, tool
from hotloop.models.transport import Receiver


class Service:
    """A transport to nowhere: a call, then a text, turn after turn."""

    def __init__(self, task: Task) -> None:
        self._bodies = (_body(service.whole(task.workload, results, True)) for _ in count() for results in (0, 1))

    async def send(self, body: bytes, receiver: Receiver) -> None:
        """See `Transport`."""
        receiver.sent(False, None)
        receiver.head(200, [])
        receiver.data(next(self._bodies))

    async def warm(self, connections: int = 1) -> None:
        """Nothing to prepare."""

    async def aclose(self) -> None:
        """Nothing to close."""


def converse(task: Task) -> Converse:
    """An agent, and the runs of a session."""
    tools = [tool(read_only=True)(function) for function in task.tools]
    agent = Agent(model=task.model, endpoint=Service(task), instructions=INSTRUCTIONS, tools=tools)
    session = agent.session("benchmark")

    async def turn(prompt: str, on_text: OnText) -> str:
        return (await session.run(prompt)).output

    return turn


class _Collected:
    """The body of a reply, put together by httptools."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.on_body = self.parts.append


def _body(reply: bytes) -> bytes:
    collected = _Collected()
    httptools.HttpResponseParser(collected).feed_data(reply)
    return b"".join(collected.parts)
