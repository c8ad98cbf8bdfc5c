"""One thought: send the request, take the reply, and send it again when that may help.

This is the one owner of retries: no transport below retries on its own. `Retry-After` is a floor for the wait. After
the first token nothing is spliced: the reply starts anew, announced by a `Reset`.
"""

from __future__ import annotations

import asyncio
import random
from typing import Protocol

import msgspec

from hotloop.budget import Deadline
from hotloop.errors import MalformedReply, ModelError, ReplyTimeout, ServiceError, ToolUseFailed, TruncatedReply
from hotloop.events import CallOpened, CallSealed, Event, ReplyFinished, Reset, Retrying, TextDelta
from hotloop.limit import Limit
from hotloop.models.reply import Reply
from hotloop.models.request import RequestTemplate
from hotloop.models.transport import Emit, Throttle, Transport
from hotloop.models.wire.assembler import CallAssembler
from hotloop.models.wire.chatstream import ChatStream
from hotloop.models.wire.faults import service_error
from hotloop.models.wire.salvage import salvage
from hotloop.trace.ledger import Ledger, TurnFacts
from hotloop.units import NS_PER_MS, NS_PER_S, Clock

_ERROR_BODY_LIMIT = 64 * 1024
_FIRST_DELAY, _DELAY_LIMIT = 0.2, 8.0  # seconds, doubling between them
_MORE_TOKENS = 4096  # the cap of a second try where the first had none of ours
_FEW = 4  # fewer tokens than this may well arrive in one read


class Listener(Protocol):
    """Hears of calls while the reply that they belong to is still being written."""

    def heard(self, calls: CallAssembler) -> None:
        """More of the calls has come; called on the event loop, must not block."""

    async def discard(self) -> None:
        """That reply is not to be trusted; another one may come."""


class Exchange:
    """The receiver of one reply: parses it, tells its events, and notes when its tokens came (ns)."""

    __slots__ = (
        "_clock",
        "_emit",
        "_error_body",
        "_headers",
        "_last_events",
        "_listener",
        "_throttle",
        "connected",
        "first",
        "last",
        "reads",
        "sent_at",
        "status",
        "stream",
    )

    def __init__(
        self, clock: Clock, emit: Emit, max_tokens: int | None = None, listener: Listener | None = None
    ) -> None:
        self.stream = ChatStream(max_tokens)
        self.status = 0
        self.sent_at = self.first = self.last = self.reads = 0
        self.connected = False
        self._clock = clock
        self._emit = emit
        self._listener = listener
        self._headers: list[tuple[bytes, bytes]] = []
        self._error_body = bytearray()
        self._throttle: Throttle | None = None
        self._last_events: list[Event] = []

    def sent(self, connected: bool, throttle: Throttle | None) -> None:
        """See `Receiver.sent`."""
        self.connected, self._throttle = connected, throttle
        self.sent_at = self._clock()

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """See `Receiver.head`."""
        self.status, self._headers = status, headers

    def data(self, chunk: bytes) -> bool:
        """See `Receiver.data`."""
        if self.status >= 300:
            self._error_body += chunk
            return len(self._error_body) >= _ERROR_BODY_LIMIT
        stream = self.stream
        before = stream.tokens
        events = stream.feed(chunk)
        if stream.tokens != before:
            self.last = self._clock()
            self.first = self.first or self.last
            self.reads += 1
        if stream.done:
            self._last_events = events  # told together with the end of the reply, a moment later
            return True
        if events:
            self._emit(events, self._throttle)
        if stream.error is not None:
            return True
        if self._listener is not None and stream.calls is not None:
            self._listener.heard(stream.calls)
        return False

    def reply(self) -> Reply:
        """The complete reply; raises ModelError if there is none."""
        if self.status >= 300:
            raise service_error(self.status, self._fields(), bytes(self._error_body))
        events = self._last_events + self.stream.close()
        if not self.first and self.stream.tokens:  # a whole reply, parsed only now
            self.first = self.last = self._clock()
        if events:
            self._emit(events)
        if self.stream.error is not None and (how := self._fields().get("content-encoding", "identity")) != "identity":
            raise MalformedReply(f"The service sent its reply as {how}, though it was asked for none of that.")
        return self.stream.reply()

    def _fields(self) -> dict[str, str]:
        return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in self._headers}


class Client:
    """Asks one model of one service. `timeout` is for a whole reply, in seconds; `retries` for each request."""

    def __init__(
        self,
        transport: Transport,
        request: RequestTemplate,
        *,
        tool_names: frozenset[str] = frozenset(),
        retries: int = 2,
        timeout: float = 60.0,
    ) -> None:
        self.transport = transport
        self.request = request
        self._tool_names = tool_names
        self._retries = retries
        self._timeout = timeout

    async def think(
        self,
        messages: bytearray,
        ledger: Ledger,
        emit: Emit,
        *,
        tools: bool = True,
        deadline: Deadline | None = None,
        listener: Listener | None = None,
    ) -> Reply:
        """The model's reply to these messages; its stages and its turn's facts go to the ledger.

        `listener` hears of its calls while they are written, and of each reply that came to nothing.
        Raises ModelError once no retry is left or none would help, or when the deadline has come.
        """
        deadline = deadline or Deadline(None, 0)
        max_tokens = self.request.max_tokens
        extra = b""
        attempt = 0
        changed: set[type[ModelError]] = set()  # what the request was changed for, once each
        while True:
            attempt += 1
            exchange = Exchange(ledger.clock, emit, max_tokens, listener)
            body = self.request.body(messages + extra if extra else messages, tools=tools, max_tokens=max_tokens)
            asked_at = ledger.mark("context")
            try:
                reply = await self._attempt(body, exchange, ledger, deadline.remaining_ns(asked_at))
                break
            except ModelError as error:
                failed = error
            if listener is not None:
                await listener.discard()
            started = [Reset(str(failed))] if exchange.stream.started else []
            if isinstance(failed, ToolUseFailed):
                if salvaged := salvage(failed.failed_generation, self._tool_names):
                    reply = salvaged
                    emit([*started, *_events_of(reply)])
                    break
                extra = _correction(failed)
            elif isinstance(failed, TruncatedReply):
                max_tokens = 2 * (max_tokens or exchange.stream.written or _MORE_TOKENS // 2)
            if isinstance(failed, ToolUseFailed | TruncatedReply) and type(failed) not in changed:
                changed.add(type(failed))
                delay: float | None = 0.0
            else:
                delay = self._delay(failed, attempt, deadline.remaining_ns(ledger.clock()))
            if delay is None:
                raise failed
            emit([*started, Retrying(attempt + 1, delay, str(failed))])
            await asyncio.sleep(delay)
            ledger.mark("queue", f"retry after {type(failed).__name__}")
        ledger.mark("parse")
        ledger.turns.append(_facts(ledger.turn, asked_at, exchange, reply, attempt, self.request.stream))
        return reply

    async def _attempt(self, body: bytes, exchange: Exchange, ledger: Ledger, left: int | None) -> Reply:
        seconds = self._timeout if left is None else min(self._timeout, left / NS_PER_S)
        try:
            with Limit(seconds, asyncio.get_running_loop()):
                await self.transport.send(body, exchange)
            return exchange.reply()
        except TimeoutError:
            whose = "" if seconds == self._timeout else ", which was all that the run's budget had left"
            raise ReplyTimeout(f"The reply was not complete within {seconds:g} s{whose}.") from None
        finally:
            _mark(exchange, ledger)

    def _delay(self, error: ModelError, attempt: int, left: int | None) -> float | None:
        """Seconds to wait before the next attempt; None if there is to be none.

        Nobody waits longer for a try than for a reply, nor past the deadline.
        """
        if not error.retryable or attempt > self._retries:
            return None
        backoff: float = min(_DELAY_LIMIT, _FIRST_DELAY * 2 ** (attempt - 1)) * random.uniform(0.5, 1.0)
        asked = error.retry_after if isinstance(error, ServiceError) and error.retry_after else 0.0
        delay = max(backoff, asked)
        return delay if asked <= self._timeout and (left is None or delay * NS_PER_S < left) else None


def _mark(exchange: Exchange, ledger: Ledger) -> None:
    """The exchange's times as stages; of a failed one, those it came to."""
    if exchange.sent_at:
        ledger.mark_at("connect", exchange.sent_at, "opened" if exchange.connected else "kept")
        ledger.mark_at("prefill", exchange.first or ledger.clock())
        if exchange.first:
            ledger.mark("decode")  # up to the reply's end: its last bytes, or the silence that broke it
    else:
        ledger.mark("connect", "failed")


def _facts(turn: int, asked_at: int, exchange: Exchange, reply: Reply, attempts: int, streamed: bool) -> TurnFacts:
    usage = reply.usage
    tokens = usage.output_tokens if usage.output_tokens is not None else exchange.stream.tokens
    spread = exchange.last - exchange.first
    buffered = streamed and tokens > _FEW and (exchange.reads <= 1 or spread < tokens * NS_PER_MS // 1000)
    return TurnFacts(
        turn=turn,
        ttft=exchange.first - asked_at if exchange.first else None,
        tpot=spread // (tokens - 1) if streamed and not buffered and tokens > 1 and exchange.reads > 1 else None,
        usage=usage,
        attempts=attempts,
        buffered=buffered,
        salvaged=reply.salvaged,
        finish_reason=reply.finish_reason,
        model=reply.model,
        tools=[call.name for call in reply.calls],
        server_ms=reply.server_ms,
    )


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
