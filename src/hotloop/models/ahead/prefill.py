"""A request that only has a prompt read: its reply is one token, or none, and what it is for is the service's cache."""

from __future__ import annotations

import asyncio

import msgspec

from hotloop.errors import CircuitOpen, ModelError, ReplyTimeout, TruncatedReply
from hotloop.limit import Limit
from hotloop.models.ask import Ask
from hotloop.models.client import Client
from hotloop.models.exchange import Exchange
from hotloop.models.request import RequestTemplate
from hotloop.models.sizes import estimated_tokens
from hotloop.models.transport import nobody
from hotloop.models.wire.chatstream import ChatStream
from hotloop.trace.ledger import AttemptFacts, Ledger, Usage
from hotloop.units import clock, ms

_FIRST_WORDS = b'{"role":"user","content":"."}'  # some chat templates refuse a conversation that nobody has begun


class Prefilled(msgspec.Struct, frozen=True):
    """What a service has read, in tokens, and of that what it had read before; None is not told. `ms` is how long."""

    tokens: int | None
    cached: int | None
    ms: float

    @property
    def read(self) -> int | None:
        """The tokens that it had not read before."""
        return None if self.tokens is None else self.tokens - (self.cached or 0)


def prefill_body(request: RequestTemplate, messages: bytes | bytearray, session: str = "") -> bytes:
    """The body that has these messages read as the beginning of a prompt of this template."""
    body = request.body(messages, max_tokens=1, session=session)
    nothing = request.dialect.write_nothing
    return b"%b,%b}" % (body[:-1], nothing) if nothing else body


async def prefill_front(client: Client, instructions: bytes | bytearray) -> Prefilled | None:
    """Have the tools and the instructions read that every conversation begins with; None if that would be in vain.

    It is in vain at services that are not known to cache prefixes, or none so short, and while there is no place free.
    Raises ModelError.
    """
    messages = b",".join(filter(None, [bytes(instructions), _FIRST_WORDS]))
    dialect, size = client.dialect, estimated_tokens(client.request.front + messages)
    return await prefill(client, messages) if dialect.caches and size >= dialect.least_cached else None


async def prefill(
    client: Client, messages: bytes | bytearray, *, ledger: Ledger | None = None, session: str = ""
) -> Prefilled | None:
    """Have a prompt read, at once or not at all: None if the service has no place free, or is left alone.

    It goes to the attempts of the ledger, with its tokens. Raises ModelError.
    """
    ledger = ledger or Ledger(clock(), "")
    service, begun = client.service, ledger.clock()
    body = prefill_body(client.request, messages, session)
    try:
        service.require_closed(begun)
    except CircuitOpen:
        return None
    try:
        if not service.admission.try_enter(estimated_tokens(body), begun, background=True):
            return None
        try:
            return await _send(client, body, ledger, begun)
        finally:
            service.admission.leave()
    finally:
        service.give_up()  # it says nothing about how the service answers


async def _send(client: Client, body: bytes, ledger: Ledger, begun: int) -> Prefilled:
    service, usage = client.service, Usage()
    exchange = Exchange(Ask(messages=bytearray(), ledger=Ledger(ledger.clock, ""), emit=nobody), begun, ChatStream())
    outcome, reason = "cancelled", ""
    try:
        await _exchange(client, body, exchange)
        usage = _usage(exchange)
        outcome = "ok"
    except ModelError as error:
        outcome, reason = "failed", str(error)
        raise
    finally:
        end = ledger.clock()
        named = service.name, service.model
        facts = AttemptFacts(ledger.turn, *named, "prefill", begun, end, outcome, exchange.first, reason, usage)
        ledger.attempts.append(facts)
        service.admission.learn(exchange.headers, end, begun)
    return Prefilled(usage.input_tokens, usage.cached_tokens, ms(end - begun))


async def _exchange(client: Client, body: bytes, exchange: Exchange) -> None:
    seconds = client.policy.total
    try:
        with Limit(seconds, asyncio.get_running_loop()):
            await client.transport.send(body, exchange)
    except TimeoutError:
        raise ReplyTimeout(f"The service did not read the prompt within {seconds:g} s.") from None


def _usage(exchange: Exchange) -> Usage:
    try:
        return exchange.reply().usage
    except TruncatedReply:  # its one token was the beginning of a call
        return Usage()
