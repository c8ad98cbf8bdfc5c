"""hotloop without a network: the request is dropped and the reply is there at once; what is left is hotloop itself."""

from __future__ import annotations

from itertools import cycle

import httptools
import service
from workload import INSTRUCTIONS, Converse, OnText, Task

from hotloop import Agent, tool
from hotloop.models.transport import Receiver

HEADERS = [(b"x-ratelimit-limit-tokens", b"1000000000"), (b"x-ratelimit-remaining-tokens", b"999999999")]


class Service:
    """A transport to nowhere: a call, then a text, turn after turn, with rate limits as services tell them."""

    def __init__(self, task: Task) -> None:
        self._bodies = cycle([_body(service.whole(task.workload, results, True)) for results in (0, 1)])

    async def send(self, body: bytes, receiver: Receiver) -> None:
        """See `Transport`."""
        receiver.sent(False, None)
        receiver.head(200, HEADERS)
        receiver.data(next(self._bodies))

    async def warm(self, connections: int = 1) -> None:
        """Nothing to prepare."""

    async def aclose(self) -> None:
        """Nothing to close."""


def converse(task: Task, sessions: str = ":memory:") -> Converse:
    """An agent, and the runs of a session that is kept there."""
    tools = [tool(read_only=True)(function) for function in task.tools]
    agent = Agent(model=task.model, endpoint=Service(task), instructions=INSTRUCTIONS, tools=tools, sessions=sessions)
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
