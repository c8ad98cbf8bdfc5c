"""A model inside the process: a transport that answers from a script, at exact times."""

from __future__ import annotations

from hotloop.lab.script import AnyReply, Replies, Request, in_turn
from hotloop.lab.simtransport import SimulatedTransport
from hotloop.models.transport import Receiver


class ScriptedModel:
    """A `Transport` that gives `replies` in turn: the first token after `ttft` seconds, the others `tpot` apart.

    `replies` may also be a function from the decoded request to a reply. `requests` holds every decoded request,
    `bodies` every one as it was sent.
    With `tpot` 0 a reply arrives in one read, otherwise each token in its own, at its own moment of the loop's clock.
    A reply ends at the request's token cap, with the finish reason "length".
    Sending raises ScriptExhausted when the replies are used up, and InvalidRequest for a body that is no request.
    """

    def __init__(self, replies: Replies, *, ttft: float = 0.0, tpot: float = 0.0) -> None:
        self.requests: list[Request] = []
        self.bodies: list[bytes] = []
        self._answer = replies if callable(replies) else in_turn(replies)
        self._transport = SimulatedTransport(self._noted, ttft=ttft, tpot=tpot)

    async def send(self, body: bytes, receiver: Receiver) -> None:
        """See `Transport`."""
        self.bodies.append(body)
        await self._transport.send(body, receiver)

    async def warm(self, connections: int = 1) -> None:
        """Nothing to prepare."""

    async def aclose(self) -> None:
        """Nothing to close."""

    def _noted(self, request: Request) -> AnyReply:
        self.requests.append(request)
        return self._answer(request)
