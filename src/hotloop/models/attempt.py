"""One request under the policy of its service: admitted, watched, hedged if that helps, and taken down."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from hotloop.errors import ModelError
from hotloop.limit import Limit
from hotloop.models.ask import Ask
from hotloop.models.exchange import Exchange
from hotloop.models.policy.patience import Patience
from hotloop.models.policy.race import Claim, Race
from hotloop.models.reply import Reply
from hotloop.models.sizes import estimated_tokens
from hotloop.models.wire.chatstream import ChatStream
from hotloop.models.wire.confidence import ScoredStream
from hotloop.trace.ledger import AttemptFacts, Usage, Why
from hotloop.units import NS_PER_S

if TYPE_CHECKING:
    from hotloop.models.client import Client

_UNKNOWN = Usage()
_TOKENS_OUT = 256  # what a reply is taken to need where nothing caps it
_COUNTED = 1 << 13  # bytes of a request
_PLACE = "a place at the service"


class Attempt:
    """Gets one reply, or the typed error that says why there is none. `exchange` is the one that counts."""

    __slots__ = (
        "_ask",
        "_body",
        "_max_tokens",
        "_parser",
        "_policy",
        "_race",
        "_service",
        "_streamed",
        "_transport",
        "_why",
        "exchange",
    )

    def __init__(self, client: Client, ask: Ask, body: bytes, *, why: Why, max_tokens: int | None) -> None:
        self._transport = client.transport
        self._service = client.service
        self._policy = client.policy
        self._streamed = client.request.stream
        self._parser = ScoredStream if client.request.scored else ChatStream
        self._ask = ask
        self._body = body
        self._why = why
        self._max_tokens = max_tokens
        self._race: Race[Reply] | None = None
        self.exchange = Exchange(ask, ask.ledger.mark("context"), self._parser(max_tokens))

    async def reply(self) -> Reply:
        """The complete reply. Raises ModelError; CircuitOpen or ServiceBusy if nothing was sent."""
        service, ledger = self._service, self._ask.ledger
        if service.is_guarded:
            self._require_closed()
        if not (service.admission.free or self._enters()):
            await self._wait_for_place()
        if self._policy.hedge and (after := service.hedge_after(self._new_bytes, self.exchange.begun)) is not None:
            reply = await self._hedged(after)
        else:
            try:
                reply = await self._send(self.exchange)
            finally:
                self.exchange.mark(ledger)
                if service.admission.counts:
                    service.admission.leave()
        ledger.sent, ledger.sent_to = len(self._ask.messages), service
        return reply

    def _enters(self) -> bool:
        """Whether there is a place at once, which is then taken."""
        begun, background = self.exchange.begun, self._ask.background
        return self._service.admission.try_enter(self._tokens, begun, background=background)

    def _require_closed(self) -> None:
        """Raises CircuitOpen."""
        try:
            self._service.require_closed(self.exchange.begun)
        except ModelError as error:
            self._note(self.exchange, self._why, *_outcome(error))
            raise

    @property
    def _tokens(self) -> int:
        """About what this request takes of a limit on tokens; of a long one its end is counted, and stands for all."""
        end = self._body[-_COUNTED:]
        return estimated_tokens(end) * len(self._body) // len(end) + (self._max_tokens or _TOKENS_OUT)

    @property
    def _new_bytes(self) -> int:
        """How much of the prompt the service is likely not to have cached."""
        ledger, service = self._ask.ledger, self._service
        return len(self._body) - (ledger.sent if service.caches and ledger.sent_to is service else 0)

    @property
    def _known_bytes(self) -> int:
        """How much of the prompt the service has seen, if it has answered in this run before."""
        sent, length = self._ask.ledger.sent, len(self._ask.messages)
        return len(self._body) - length + sent if sent <= length else 0

    async def _wait_for_place(self) -> None:
        """Raises ServiceBusy, and CircuitOpen if the service was closed off meanwhile."""
        ask, service = self._ask, self._service
        service.give_up()  # for as long as it waits: others may try whether a service is back
        left = ask.deadline.remaining_ns(self.exchange.begun)
        seconds = self._policy.total if left is None else min(left / NS_PER_S, self._policy.total)
        ledger, held = ask.ledger, None
        try:
            held = await service.admission.enter(
                self._tokens, background=ask.background, left=seconds, clock=ledger.clock
            )
        except BaseException as error:
            self._note(self.exchange, self._why, *_outcome(error))
            raise
        finally:
            if held is not None and held.ns:
                ledger.mark_at("queue", ledger.clock() - held.ns, _PLACE)
            why = f": {held.why}" if held is not None and held.ns else ""
            self.exchange.begun = ledger.mark("queue", _PLACE + why)
        try:
            self._require_closed()
        except ModelError:
            service.admission.leave()
            raise

    async def _hedged(self, after: int) -> Reply:
        """The reply to this request or to a second one; each of them gives back its place."""
        exchanges = [self.exchange]
        ledger, service = self._ask.ledger, self._service

        def begin(number: int, claim: Claim) -> Coroutine[Any, Any, Reply]:
            if number:
                exchanges.append(Exchange(self._ask, ledger.clock(), self._parser(self._max_tokens)))
            exchanges[number].claim = claim
            return self._send(exchanges[number], number)

        self._race = race = Race(begin, service.admission.leave)
        try:
            return await race.run(after / NS_PER_S, lambda: service.may_hedge(self._tokens, ledger.clock()))
        finally:
            self.exchange = exchanges[race.winner or 0]
            ledger.mark_at("prefill", self.exchange.begun, "before its hedge")
            self.exchange.mark(ledger)

    async def _send(self, exchange: Exchange, number: int = 0) -> Reply:
        """The reply to the first request or to its hedge, by their `number`."""
        service, clock = self._service, self._ask.ledger.clock
        why: Why = "hedge" if number else self._why
        if not number:
            self._ask.ledger.asked = exchange
        left = self._ask.deadline.remaining_ns(exchange.begun)
        patience = Patience(
            exchange,
            total=self._policy.total,
            first_token=self._first_token(left) if self._streamed else None,
            stall=service.stall(self._policy) if self._streamed else None,
            left=left,
        )
        limit = Limit(patience.first(), asyncio.get_running_loop(), patience.look)
        try:
            try:
                with limit:
                    await self._transport.send(self._body, exchange)
            except TimeoutError:
                if not limit.expired:  # one of the transport's own
                    raise
                raise patience.error() from None
            reply = exchange.reply()
        except ModelError as error:
            service.failed(exchange, error, self._new_bytes, clock(), hurried=patience.ran_out)
            self._note(exchange, why, *_outcome(error))
            raise
        except BaseException as error:
            service.give_up()
            if self._race is not None and self._race.winner not in (None, number):
                self._lost(exchange, why)
            else:
                self._note(exchange, why, *_outcome(error))
            raise
        size = self._new_bytes if self._policy.hedge else 0
        service.replied(exchange, size, clock(), streamed=self._streamed)
        self._note(exchange, why, "ok", usage=reply.usage)
        return reply

    def _first_token(self, left: int | None) -> float | None:
        """The seconds for a first token: half of what is left where somebody else can be asked, if nothing is said."""
        set_limit = self._policy.first_token
        if set_limit is not None or left is None or not self._ask.others:
            return set_limit
        return left / 2 / NS_PER_S

    def _lost(self, exchange: Exchange, why: Why) -> None:
        if why != "hedge":  # which has not waited long enough to tell anything
            self._service.lost(exchange, self._new_bytes, self._ask.ledger.clock())
        self._note(exchange, why, "lost", "the other one was first")

    def _note(
        self, exchange: Exchange, why: Why, outcome: str, reason: str = "", error: str = "", usage: Usage = _UNKNOWN
    ) -> None:
        ledger, service = self._ask.ledger, self._service
        ledger.attempts.append(
            AttemptFacts(
                ledger.turn,
                service.name,
                service.model,
                why,
                exchange.begun,
                ledger.clock(),
                outcome,
                exchange.first,
                reason,
                usage,
                len(self._body),
                self._known_bytes if ledger.sent_to is service else 0,
                error,
            )
        )


def _outcome(error: BaseException) -> tuple[str, str, str]:
    """What an attempt has come to, the reason, and the class of the error."""
    if isinstance(error, asyncio.CancelledError):
        return "cancelled", "", ""
    return "failed", str(error) if isinstance(error, ModelError) else repr(error), type(error).__name__
