"""The receiver of one reply: parses it, tells its events, and notes when its tokens came."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hotloop.errors import MalformedReply
from hotloop.events import Event
from hotloop.models.ask import Ask
from hotloop.models.reply import Reply
from hotloop.models.transport import Throttle
from hotloop.models.wire.chatstream import ChatStream
from hotloop.models.wire.faults import service_error
from hotloop.trace.ledger import Ledger, TurnFacts
from hotloop.trace.pace import is_buffered, time_per_token

_ERROR_BODY_LIMIT = 64 * 1024


class Exchange:
    """One request and its reply; all times are nanoseconds of the run's clock, 0 is not yet.

    `begun` is when it was asked, `sent_at` when the request had gone, `first` and `last` when tokens came, `since` when
    the service was last waited for: then, or when our own reader, who had held it up, let it go on. `gap` is the
    longest silence between two reads, `spoke` when text came first. `claim`, if there is one, is asked before anything
    of this reply is told whether it is wanted. To the reader it is the reply's `Throttle`.
    """

    __slots__ = (
        "_emit",
        "_error_body",
        "_last_events",
        "_listener",
        "_throttle",
        "begun",
        "claim",
        "clock",
        "connected",
        "first",
        "gap",
        "headers",
        "last",
        "paused",
        "reads",
        "sent_at",
        "since",
        "spoke",
        "status",
        "stream",
    )

    def __init__(self, ask: Ask, begun: int, stream: ChatStream) -> None:
        self.stream = stream
        self.begun = begun
        self.status = 0
        self.sent_at = self.first = self.last = self.since = self.spoke = self.gap = self.reads = 0
        self.connected = self.paused = False
        self.headers: list[tuple[bytes, bytes]] = []
        self._throttle: Throttle | None = None
        self.clock = ask.ledger.clock
        self._emit = ask.emit
        self._listener = ask.listener
        self.claim: Callable[[], bool] | None = None
        self._error_body = bytearray()
        self._last_events: list[Event] = []

    def sent(self, connected: bool, throttle: Throttle | None) -> None:
        """See `Receiver.sent`."""
        self.connected, self._throttle = connected, throttle
        self.sent_at = self.clock()

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """See `Receiver.head`."""
        self.status, self.headers = status, headers

    def data(self, chunk: bytes) -> bool:
        """See `Receiver.data`."""
        if self.status >= 300:
            self._error_body += chunk
            return len(self._error_body) >= _ERROR_BODY_LIMIT
        stream = self.stream
        before = stream.tokens
        events = stream.feed(chunk)
        if stream.tokens != before and not self._tokens_came():
            return True
        if stream.done:
            self._last_events = events  # told together with the end of the reply, a moment later
            return True
        if events:
            self._emit(events, None if self._throttle is None else self)
        if stream.error is not None:
            return True
        if self._listener is not None and stream.calls is not None:
            self._listener.heard(stream.calls)
        return False

    def _tokens_came(self) -> bool:
        """Note the time; False if nobody wants this reply any longer."""
        now = self.clock()
        if not self.first:
            self.first = now
            if self.claim is not None and not self.claim():
                return False
        elif now - self.since > self.gap:
            self.gap = now - self.since
        self.last = self.since = now
        self.reads += 1
        if not self.spoke and self.stream.texts:
            self.spoke = now
        return True

    def pause(self) -> None:
        """See `Throttle.pause`."""
        if self._throttle is not None:
            self.paused = True
            self._throttle.pause()

    def resume(self) -> None:
        """See `Throttle.resume`."""
        self.paused, self.since = False, self.clock()
        if self._throttle is not None:
            self._throttle.resume()

    def reply(self) -> Reply:
        """The complete reply; raises ModelError if there is none."""
        self._throttle = None  # its connection may carry another reply by now
        if self.status >= 300:
            raise service_error(self.status, self._fields(), bytes(self._error_body))
        events = self._last_events + self.stream.close()
        if not self.first and self.stream.tokens:  # a whole reply, parsed only now
            self.first = self.last = self.clock()
            self.spoke = self.first if self.stream.texts else 0
        if self.claim is not None and (events or self.stream.error is None) and not self.claim():
            raise asyncio.CancelledError  # as the task of this reply has been; it would hear of it a moment later
        if events:
            self._emit(events)
        if self.stream.error is not None and (how := self._fields().get("content-encoding", "identity")) != "identity":
            raise MalformedReply(f"The service sent its reply as {how}, though it was asked for none of that.")
        return self.stream.reply()

    def mark(self, ledger: Ledger) -> None:
        """Its times as stages; of a failed one, those it came to."""
        if self.sent_at:
            ledger.mark_at("connect", self.sent_at, "opened" if self.connected else "kept")
            ledger.mark_at("prefill", self.first or ledger.clock())
            if self.first:
                ledger.mark("decode")  # up to the reply's end: its last bytes, or the silence that broke it
            if self.spoke:
                ledger.shown(self.spoke)
        else:
            ledger.mark("connect", "failed")

    def facts(self, turn: int, reply: Reply, attempts: int, streamed: bool) -> TurnFacts:
        """What this reply was."""
        usage = reply.usage
        tokens = usage.output_tokens if usage.output_tokens is not None else self.stream.tokens
        spread = self.last - self.first
        return TurnFacts(
            turn=turn,
            ttft=self.first - self.begun if self.first else None,
            tpot=time_per_token(tokens, self.reads, spread) if streamed else None,
            usage=usage,
            attempts=attempts,
            buffered=streamed and is_buffered(tokens, self.reads, spread),
            salvaged=reply.salvaged,
            finish_reason=reply.finish_reason,
            model=reply.model,
            tools=[call.name for call in reply.calls],
            server_ms=reply.server_ms,
            gap=self.gap,
        )

    def _fields(self) -> dict[str, str]:
        return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in self.headers}
