"""One thought of one model: send the request, take the reply, and send it again when that may help.

This is the one owner of retries: no transport below retries on its own. `Retry-After` is a floor for the wait. After
the first token nothing is spliced: the reply starts anew, announced by a `Reset`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

import msgspec

from hotloop.errors import (
    CircuitOpen,
    InvalidRequest,
    ModelError,
    ReplyTimeout,
    ServiceBusy,
    ServiceError,
    ToolUseFailed,
    TruncatedReply,
)
from hotloop.events import CallOpened, CallSealed, Event, ReplyFinished, Reset, Retrying, TextDelta
from hotloop.models.ask import Ask
from hotloop.models.attempt import Attempt
from hotloop.models.policy.policy import Policy
from hotloop.models.reply import Reply
from hotloop.models.request import RequestTemplate
from hotloop.models.service import Service
from hotloop.models.translation import translated
from hotloop.models.transport import Transport
from hotloop.models.wire.salvage import salvage
from hotloop.trace.ledger import Why
from hotloop.units import NS_PER_S

_NOT_AGAIN = (CircuitOpen, ServiceBusy)
_MORE_TOKENS = 4096  # the cap of a second try where the first had none of ours


class Client:
    """Asks one model of one service; `tool_names` are those that a call in words may be salvaged for."""

    def __init__(
        self,
        transport: Transport,
        request: RequestTemplate,
        service: Service,
        policy: Policy,
        *,
        tool_names: frozenset[str] = frozenset(),
    ) -> None:
        self.transport = transport
        self.request = request
        self.dialect = request.dialect
        self.service = service
        self.policy = policy
        self.tool_names = tool_names

    def think(self, ask: Ask, why: Why = "first") -> Coroutine[Any, Any, Reply]:
        """See `Thinker`."""
        return _Thought(self, ask, why).reply()


class _Thought:
    """The attempts at one reply, and what each of them changes about the next."""

    __slots__ = (
        "_added",
        "_ask",
        "_attempts",
        "_changed",
        "_client",
        "_goes_on",
        "_max_tokens",
        "_messages",
        "_once",
        "_why",
    )

    def __init__(self, client: Client, ask: Ask, why: Why) -> None:
        self._client = client
        self._ask = ask
        self._why = why
        self._once = why == "summary" and ask.background  # it comes again by itself, and must not use up the service
        self._goes_on = bool(ask.ledger.turns) and ask.ledger.sent_to is client.service  # so did the turn before
        foreign = ask.dialect not in (None, client.dialect)
        self._messages = translated(ask.messages, client.dialect) if foreign else ask.messages
        own, wanted = client.request.max_tokens, ask.max_tokens
        self._max_tokens = own if wanted is None else wanted if own is None else min(own, wanted)
        self._added = b""  # messages that only this thought adds
        self._attempts = 0
        self._changed: set[type[ModelError]] = set()  # what the request was changed for, once each

    async def reply(self) -> Reply:
        if self._ask.ledger.turn == 0:
            self._watch()
        while True:
            attempt = self._attempt()
            try:
                reply = await attempt.reply()
                break
            except ModelError as error:
                failed = error
            if self._ask.listener is not None:
                await self._ask.listener.discard()
            if salvaged := self._salvaged(failed, attempt):
                reply = salvaged
                break
            await self._before_another(failed, attempt)
        self._close(attempt, reply)
        return reply

    def _watch(self) -> None:
        """Notice a prompt that no longer begins as the one before it."""
        ask, client = self._ask, self._client
        watch, front = client.service.watch, client.request.front
        _warn(ask, watch.seen(ask.ledger.name, front, ask.messages, ask.session, rearranged=ask.rearranged))

    def _attempt(self) -> Attempt:
        client, ask = self._client, self._ask
        self._attempts += 1
        body = client.request.body(
            self._messages + self._added if self._added else self._messages,
            tools=ask.tools,
            max_tokens=self._max_tokens,
            session=ask.session,
            aside=ask.aside,
            aside_last=client.service.aside_last,
        )
        return Attempt(client, ask, body, why=self._why, max_tokens=self._max_tokens)

    def _salvaged(self, failed: ModelError, attempt: Attempt) -> Reply | None:
        if not isinstance(failed, ToolUseFailed):
            return None
        reply = salvage(failed.failed_generation, self._client.tool_names)
        if reply is not None:
            self._ask.emit([*_reset(failed, attempt), *_events_of(reply)])
        return reply

    async def _before_another(self, failed: ModelError, attempt: Attempt) -> None:
        """Change the request or wait, whatever may help; raises the error if nothing will."""
        ask = self._ask
        left = ask.deadline.remaining_ns(ask.ledger.clock())
        if left != 0 and self._change(failed, attempt):
            delay, self._why = 0.0, "correction"
        else:
            delay, self._why = self._delay(failed, left), "retry"
        ask.emit([*_reset(failed, attempt), Retrying(self._attempts + 1, delay, str(failed))])
        try:
            await asyncio.sleep(delay)
        finally:
            ask.ledger.mark("queue", f"retry after {type(failed).__name__}")

    def _change(self, failed: ModelError, attempt: Attempt) -> bool:
        """Change what is asked for, once for each kind of error that this may cure."""
        if type(failed) in self._changed:
            return False
        if isinstance(failed, ToolUseFailed):
            self._added = _correction(failed)
        elif self._refuses_aside(failed):
            self._client.service.aside_last = False
        elif isinstance(failed, TruncatedReply) and self._max_tokens != self._client.request.max_tokens:
            self._max_tokens = self._client.request.max_tokens  # calls do not get shorter in a hurry
        elif isinstance(failed, TruncatedReply):
            self._max_tokens = 2 * (self._max_tokens or attempt.exchange.stream.written or _MORE_TOKENS // 2)
        else:
            return False
        self._changed.add(type(failed))
        return True

    def _refuses_aside(self, failed: ModelError) -> bool:
        """Whether the service takes no words of the user after results, which is where the aside was."""
        said_last = bool(self._ask.aside) and self._client.service.aside_last
        return said_last and isinstance(failed, InvalidRequest) and "role" in str(failed).lower()

    def _delay(self, failed: ModelError, left: int | None) -> float:
        """Seconds to wait before the next attempt; raises the error if there is to be none.

        Nobody waits longer for a try than for a reply, nor past the deadline, nor for a service that is left alone, nor
        for one that wants time or takes too long while somebody else can be asked.
        """
        policy = self._client.policy
        elsewhere = _NOT_AGAIN if not self._ask.others else (*_NOT_AGAIN, ReplyTimeout)
        retries = 0 if self._once else policy.retries
        if not failed.retryable or isinstance(failed, elsewhere) or self._attempts > retries:
            raise failed
        backoff: float = min(policy.backoff_limit, policy.backoff * 2 ** (self._attempts - 1))
        asked = failed.retry_after if isinstance(failed, ServiceError) and failed.retry_after else 0.0
        delay = max(backoff * random.uniform(1 - policy.jitter, 1.0), asked)
        if asked > (0 if self._ask.others else policy.total) or (left is not None and delay * NS_PER_S >= left):
            raise failed
        return delay

    def _close(self, attempt: Attempt, reply: Reply) -> None:
        ledger, request = self._ask.ledger, self._client.request
        ledger.mark("parse")
        if self._goes_on:
            _warn(self._ask, self._client.service.watch.reported(ledger.turns[-1].usage, reply.usage))
        ledger.turns.append(attempt.exchange.facts(ledger.turn, reply, self._attempts, request.stream))


def _warn(ask: Ask, told: str) -> None:
    """Say what is wrong with the prefix, if something is."""
    if told:
        ask.ledger.facts.setdefault("warnings", []).append(told)
        ask.ledger.facts["prefix"] = told


def _reset(failed: ModelError, attempt: Attempt) -> list[Event]:
    return [Reset(str(failed))] if attempt.exchange.stream.started else []


def _events_of(reply: Reply) -> list[Event]:
    events: list[Event] = [TextDelta(reply.text)] if reply.text else []
    for slot, call in enumerate(reply.calls):
        events += [CallOpened(slot, call.name), CallSealed(slot, call.name, call.arguments)]
    return [*events, ReplyFinished(reply.finish_reason, len(reply.calls))]


def _correction(failed: ToolUseFailed) -> bytes:
    text = (
        "Your last tool call could not be read. Call the tool again with valid JSON arguments that match its schema, "
        f"or answer in text. You wrote: {failed.failed_generation[:500]}"
    )
    return b',{"role":"user","content":%b}' % msgspec.json.encode(text)
