"""A model inside the process: a transport that answers from a script, at exact times."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hotloop.errors import TransportError
from hotloop.lab.render import Rendered, prompt_tokens, render
from hotloop.lab.script import (
    RawReply,
    Replies,
    Request,
    as_reply,
    decode_request,
    in_turn,
    token_cap,
    turn,
    wants_usage,
)
from hotloop.models.transport import Receiver

_EVENTS = [(b"content-type", b"text/event-stream")]
_JSON = [(b"content-type", b"application/json")]


class ScriptedModel:
    """A `Transport` that gives `replies` in turn: the first token after `ttft` seconds, the others `tpot` apart.

    `replies` may also be a function from the decoded request to a reply. `requests` holds every decoded request.
    With `tpot` 0 a reply arrives in one read, otherwise each token in its own, at its own moment of the loop's clock.
    A reply ends at the request's token cap, with the finish reason "length".
    Sending raises ScriptExhausted when the replies are used up, and InvalidRequest for a body that is no request.
    """

    def __init__(self, replies: Replies, *, ttft: float = 0.0, tpot: float = 0.0) -> None:
        self.requests: list[Request] = []
        self._answer = replies if callable(replies) else in_turn(replies)
        self._ttft = ttft
        self._tpot = tpot

    async def send(self, body: bytes, receiver: Receiver) -> None:
        request = decode_request(body)
        self.requests.append(request)
        cap = token_cap(request)
        reply = as_reply(self._answer(request))
        receiver.sent(False, None)
        if isinstance(reply, RawReply):
            await self._send_raw(reply, receiver)
            return
        rendered = render(reply, turn(request), cap)
        if request.get("stream"):
            await self._send_stream(rendered, request, body, receiver)
        else:
            await self._send_body(rendered, body, receiver)

    async def warm(self, connections: int = 1) -> None:
        """Nothing to prepare."""

    async def aclose(self) -> None:
        """Nothing to close."""

    async def _send_stream(self, reply: Rendered, request: Request, body: bytes, receiver: Receiver) -> None:
        pieces = reply.stream(prompt_tokens(body), wants_usage(request))
        if not self._tpot:
            pieces = [b"".join(pieces)]
        await self._deliver(pieces, receiver, 200, _EVENTS, self._ttft)

    async def _send_body(self, reply: Rendered, body: bytes, receiver: Receiver) -> None:
        complete = self._ttft + (len(reply.tokens) - 1) * self._tpot
        await self._deliver([reply.body(prompt_tokens(body))], receiver, 200, _JSON, complete)

    async def _send_raw(self, reply: RawReply, receiver: Receiver) -> None:
        ended = await self._deliver(reply.pieces, receiver, reply.status, list(reply.headers), self._ttft)
        if reply.cut and not ended:
            raise TransportError("the connection broke in the middle of the reply, as the script says")

    async def _deliver(
        self,
        pieces: Sequence[bytes],
        receiver: Receiver,
        status: int,
        headers: list[tuple[bytes, bytes]],
        delay: float,
    ) -> bool:
        """Hand `pieces` over, the first after `delay`; True when the receiver wants no more."""
        start = asyncio.get_running_loop().time() + delay
        await _until(start)
        receiver.head(status, headers)
        for number, piece in enumerate(pieces):
            await _until(start + number * self._tpot)
            if receiver.data(piece):
                return True
        return False


async def _until(moment: float) -> None:
    delay = moment - asyncio.get_running_loop().time()
    if delay > 0:
        await asyncio.sleep(delay)
