"""One request to a service, and when which bytes of the reply came: what is heard is read only afterwards.

Requests go straight to the transport: no retry, no queue and no circuit breaker of ours is between, and while replies
arrive nothing is done but to keep them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import msgspec

from hotloop.errors import HotloopError, ModelError, Overloaded, RateLimited, ReplyTimeout, ServiceError
from hotloop.lab.probing.owntimes import OwnTimes, own_times
from hotloop.limit import Limit
from hotloop.models.dialects import Dialect
from hotloop.models.reply import Reply
from hotloop.models.transport import Throttle, Transport
from hotloop.models.wire.chatstream import ChatStream
from hotloop.models.wire.faults import service_error
from hotloop.models.wire.frames import decode_json
from hotloop.models.wire.sse import EventSource, payloads
from hotloop.units import clock

Message = dict[str, Any]
_DONE = b"data: [DONE]"


class Heard:
    """A reply as it came: its `reads` with the time of each (nanoseconds of the loop's clock), or why none did.

    `answering` is set once something has come, or nothing will.
    """

    __slots__ = ("_now", "answering", "asked", "ended", "failure", "headers", "reads", "status")

    def __init__(self) -> None:
        self._now = clock()
        self.answering = asyncio.Event()
        self.asked = self.ended = 0
        self.status = 0
        self.headers: dict[str, str] = {}
        self.reads: list[tuple[int, bytes]] = []
        self.failure: HotloopError | None = None

    def begin(self) -> None:
        """It is being asked."""
        self.asked = self._now()

    def sent(self, connected: bool, throttle: Throttle | None) -> None:
        """See `Receiver.sent`."""

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """See `Receiver.head`."""
        self.status = status
        self.headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}

    def data(self, chunk: bytes) -> bool:
        """See `Receiver.data`."""
        self.reads.append((self._now(), chunk))
        self.answering.set()
        return chunk.rstrip().endswith(_DONE)

    def end(self, failure: HotloopError | None = None) -> None:
        """Nothing more will come."""
        self.ended, self.failure = self._now(), failure
        self.answering.set()

    @property
    def body(self) -> bytes:
        """All of it."""
        return b"".join(chunk for _, chunk in self.reads)


class Answer(msgspec.Struct, frozen=True):
    """What was heard, understood. Of `reply` and `error` one is None.

    `tokens` are how many pieces of text, reasoning and calls came and when, read by read; `own` is what the service
    says of its own times.
    """

    asked: int
    ended: int
    tokens: list[tuple[int, int]]
    reply: Reply | None
    error: HotloopError | None
    own: OwnTimes | None = None


_PAUSE, _LONGEST_PAUSE = 2.0, 60.0  # seconds


class Asker:
    """Asks one model of one service; `timeout` is what a reply may take, in seconds."""

    def __init__(self, transport: Transport, model: str, dialect: Dialect, timeout: float = 60.0) -> None:
        self.transport = transport
        self.dialect = dialect
        self._model = model
        self._timeout = timeout

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int | None = None,
        stream: bool = True,
        session: str = "",
        heard: Heard | None = None,
        **fields: Any,
    ) -> Heard:
        """What comes of one request; `heard` is where, for who wants to watch.

        `session` asks for the place where such a session's prefix is cached; `fields` are more fields of the body.
        """
        body = self._body(messages, max_tokens, stream, fields | self._own_ways(session))
        heard = heard or Heard()
        heard.begin()
        try:
            with Limit(self._timeout, asyncio.get_running_loop()):
                await self.transport.send(body, heard)
        except TimeoutError:
            heard.end(ReplyTimeout(f"The reply was not complete within {self._timeout:g} s."))
        except ModelError as error:
            heard.end(error)
        else:
            heard.end()
        return heard

    def _own_ways(self, session: str) -> dict[str, Any]:
        """What this dialect wants to be told: where the prefix is cached, and that its times are of interest."""
        dialect, ways = self.dialect, {}
        if session and dialect.sticky:
            ways = msgspec.json.decode(b"{%b}" % (dialect.sticky % msgspec.json.encode(session)), type=dict[str, Any])
        if dialect.name == "dynamo":
            ways["nvext"] = {**ways.get("nvext", {}), "extra_fields": ["timing"]}
        return ways

    def _body(self, messages: Sequence[Message], max_tokens: int | None, stream: bool, fields: dict[str, Any]) -> bytes:
        body: dict[str, Any] = {"model": self._model, "stream": stream}
        if stream:
            body["stream_options"] = msgspec.Raw(self.dialect.stream_options)
        if max_tokens is not None:
            body[self.dialect.max_tokens] = max_tokens
        return msgspec.json.encode(body | fields | {"messages": messages})


def pause_after(answer: Answer) -> float:
    """Seconds to leave the service alone after this: as it asks for, but at most a minute."""
    if not isinstance(answer.error, ServiceError):
        return 0.0
    unasked = _PAUSE if isinstance(answer.error, RateLimited) else 0.0
    return min(answer.error.retry_after or unasked, _LONGEST_PAUSE)


async def patiently(ask: Callable[[], Awaitable[Heard]]) -> Heard:
    """What is heard when a service that is busy is asked up to three times, as late as it wants to be."""
    for _ in range(2):
        heard = await ask()
        answer = understood(heard)
        if not isinstance(answer.error, RateLimited | Overloaded):
            return heard
        await asyncio.sleep(pause_after(answer) or _PAUSE)
    return await ask()


def understood(heard: Heard) -> Answer:
    """Read what was heard, with the parser of any run."""
    stream, tokens = ChatStream(), []
    for at, chunk in heard.reads if heard.status < 300 else ():
        before = stream.tokens
        stream.feed(chunk)
        if stream.tokens > before:
            tokens.append((at, stream.tokens - before))
    try:
        reply = _reply(heard, stream)
    except ModelError as error:
        return Answer(heard.asked, heard.ended, tokens, None, error)
    if not tokens and stream.tokens:  # a whole body, which can be read only when all of it is there
        tokens = [(heard.reads[-1][0], stream.tokens)]
    return Answer(heard.asked, heard.ended, tokens, reply, None, own_times(reply.server_ms, heard.headers))


def _reply(heard: Heard, stream: ChatStream) -> Reply:
    if heard.failure is not None:
        raise heard.failure
    if heard.status >= 300:
        raise service_error(heard.status, heard.headers, heard.body)
    stream.close()
    return stream.reply()


def objects(heard: Heard) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON objects of the reply, one for each event of a stream, each with the time at which it was complete."""
    source = EventSource()
    for at, chunk in [*heard.reads, (heard.ended, b"\n\n")]:
        for payload in payloads(source.feed(chunk)):
            try:
                value = decode_json(payload)
            except msgspec.DecodeError:
                continue  # [DONE], or what no reader of replies takes either
            if isinstance(value, dict):
                yield at, value
