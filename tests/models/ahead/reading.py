"""A service that takes a millisecond for each token that it has not read before, and what asks it."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any, NamedTuple

from hotloop.context.conversation import Conversation
from hotloop.models.ahead.speculation import Speculator, Work
from hotloop.models.ask import Ask
from hotloop.models.client import Client
from hotloop.models.dialects import DIALECTS
from hotloop.models.model import Model
from hotloop.models.policy.policy import Policy
from hotloop.models.prefix.parts import common
from hotloop.models.request import RequestTemplate
from hotloop.models.service import Service
from hotloop.models.transport import Receiver, nobody
from hotloop.trace.ledger import Ledger
from hotloop.units import clock

READ = 0.001  # seconds for a token
_numbers = itertools.count()


class ReadingService:
    """A transport. `bodies` are those that came; with `caches` off it reads everything anew each time.

    `status` is what prefills are answered with, `calls` whether their token begins a call.
    """

    def __init__(self, *, caches: bool = True, status: int = 200, calls: bool = False) -> None:
        self.bodies: list[bytes] = []
        self.under_way = self.most = 0
        self._read: list[bytes] = []
        self.status, self._caches, self._calls = status, caches, calls

    async def send(self, body: bytes, receiver: Receiver) -> None:
        self.bodies.append(body)
        receiver.sent(False, None)
        status = self.status if is_prefill(body) else 200
        known = max((common(each, body) for each in self._read), default=0) if self._caches else 0
        if status < 300:
            await self._reading((len(body) - known) // 4 * READ)
            self._read.append(body)
        receiver.head(status, [(b"content-type", b"application/json")])
        receiver.data(self._reply(status, len(body) // 4, known // 4))

    async def _reading(self, seconds: float) -> None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(seconds)
        finally:
            self.under_way -= 1

    def _reply(self, status: int, tokens: int, cached: int) -> bytes:
        if status >= 300:
            return b'{"error":{"message":"no"}}'
        called = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{"}}]
        message = {"role": "assistant", "content": None if self._calls else "x"}
        usage = {"prompt_tokens": tokens, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": cached}}
        choice = {"message": message | ({"tool_calls": called} if self._calls else {}), "finish_reason": "length"}
        return json.dumps({"choices": [choice], "usage": usage}).encode()

    async def warm(self, connections: int = 1) -> None: ...

    async def aclose(self) -> None: ...


def is_prefill(body: bytes) -> bool:
    request = json.loads(body)
    return 1 in (request.get("max_tokens"), request.get("max_completion_tokens"))


def client_of(transport: Any, dialect: str = "vllm", name: str = "m", **policy: Any) -> Client:
    model = Model(name=name, endpoint=transport, dialect=dialect, policy=Policy(**policy))
    return Client(transport, RequestTemplate(name, DIALECTS[dialect], [b'{"name":"f"}']), Service(model), model.policy)


class Works(NamedTuple):
    """A tool that is called: its name, the seconds it takes and the tokens of its result."""

    name: str
    seconds: float
    tokens: int


class Done(NamedTuple):
    """What came of a run: seconds to the first token of its second turn, and its ledger."""

    ttft: float
    ledger: Ledger


async def run_with(client: Client, speculator: Speculator | None, *tools: Works, then: Client | None = None) -> Done:
    """A run of two turns, as the loop has it; the second is `then`'s, if it is another's."""
    ledger, conversation = Ledger(clock(), "run"), Conversation.of("You help.")
    conversation.user(f"Question {next(_numbers)}?")
    await client.think(Ask(messages=conversation.messages, ledger=ledger, emit=nobody))
    results: list[str | None] = [None] * len(tools)
    started = ledger.clock()

    def so_far(conversation: Conversation) -> bytearray:
        conversation.calls([(f"c{place}", each.name, "{}", {}) for place, each in enumerate(tools)])
        for place, result in enumerate(results):
            if result is None:
                break
            conversation.result(f"c{place}", result)
        return conversation.messages

    def running() -> list[tuple[str, int]]:
        return [(tool.name, started) for tool, result in zip(tools, results, strict=True) if result is None]

    known = Work(ledger, conversation.messages, lambda: so_far(Conversation()), running)
    ahead = speculator and speculator.begin(known)

    async def work(place: int, tool: Works) -> None:
        await asyncio.sleep(tool.seconds)
        results[place] = f"{tool.name} " + "word" * tool.tokens
        if ahead:
            ahead.finished(tool.name, ledger.clock() - started)

    await asyncio.gather(*(work(place, tool) for place, tool in enumerate(tools)))
    if ahead:
        await ahead.end()
    ledger.turn = 1
    await (then or client).think(Ask(messages=so_far(conversation), ledger=ledger, emit=nobody))
    return Done((ledger.turns[1].ttft or 0) / 1e9, ledger)


def prefills(done: Done) -> list[str]:
    """What came of the run's prefills."""
    return [facts.outcome for facts in done.ledger.attempts if facts.why == "prefill"]
