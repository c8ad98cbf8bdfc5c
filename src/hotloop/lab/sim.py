"""A simulated model service: OpenAI-compatible, over real sockets, with the latency you choose."""

from __future__ import annotations

import asyncio
import time
from functools import lru_cache
from typing import Self

import msgspec

from hotloop.errors import ConfigError, HotloopError
from hotloop.lab.auto import auto
from hotloop.lab.emit import Emitter, Stats
from hotloop.lab.httpd import LAST_CHUNK, Connection, Exchange, chunk, response, response_head
from hotloop.lab.render import MODEL, error_body, prompt_tokens, render
from hotloop.lab.script import (
    RawReply,
    Replies,
    Reply,
    Request,
    as_reply,
    decode_request,
    per_conversation,
    token_cap,
    turn,
    wants_usage,
)
from hotloop.lab.timer import DeadlineTimer
from hotloop.units import ns

_EVENTS = ((b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache"))
_CHUNKED = (b"transfer-encoding", b"chunked")
_MODELS = {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "hotloop"}]}


class SimulatedService:
    """Serves `replies` on loopback while its `async with` block runs.

    The first token leaves `ttft` seconds after the request has arrived, the others `tpot` seconds apart, each in a
    write of its own. `replies` is a list, in which every conversation goes its own way from the first reply on; or a
    function from the decoded request to a reply; or left out: then offered tools are called with words of the user's
    message where these fit, else with plain values. A reply ends at the request's token cap, with the finish reason
    "length". Raises ConfigError when the port is taken.
    """

    def __init__(
        self,
        replies: Replies = auto,
        *,
        ttft: float = 0.0,
        tpot: float = 0.0,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.stats = Stats()
        self._answer = replies if callable(replies) else per_conversation(replies)
        self._ttft = ns(ttft)
        self._tpot = ns(tpot)
        self._host = host
        self._port = port
        self._connections: set[Connection] = set()

    @property
    def url(self) -> str:
        """The base URL to give to an agent."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}/v1"

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(self._connection, self._host, self._port, backlog=1024)
        except OSError as error:
            raise ConfigError(f"Cannot serve on {self._host} port {self._port}: {error}.") from error
        self._port = self._server.sockets[0].getsockname()[1]
        self._timer = DeadlineTimer()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        closed = [connection.closed for connection in self._connections]
        for connection in list(self._connections):
            connection.abort()
        await asyncio.gather(*closed)
        self._timer.close()
        await self._server.wait_closed()

    def _connection(self) -> Connection:
        return Connection(self._handle, self._connections)

    def _handle(self, exchange: Exchange) -> None:
        for ending, method, answer in (
            ("/chat/completions", "POST", self._complete),
            ("/models", "GET", self._models),
            ("/stats", "GET", self._report),
        ):
            if exchange.path.endswith(ending):
                if exchange.method == method:
                    return answer(exchange)
                return exchange.respond(405, error_body(f"{exchange.path} takes {method}, not {exchange.method}."))
        return exchange.respond(404, error_body(f"There is no {exchange.path} here.", code="unknown_url"))

    def _models(self, exchange: Exchange) -> None:
        exchange.respond(200, msgspec.json.encode(_MODELS))

    def _report(self, exchange: Exchange) -> None:
        exchange.respond(200, msgspec.json.encode(self.stats))

    def _complete(self, exchange: Exchange) -> None:
        start = time.monotonic_ns() + self._ttft
        self.stats.requests += 1
        try:
            request = decode_request(exchange.body)
            cap = token_cap(request)
            reply = as_reply(self._answer(request))
        except HotloopError as error:
            exchange.respond(400, error_body(str(error)))
        except Exception as error:
            _report_fault(error)
            exchange.respond(500, error_body(f"The script failed: {error!r}.", "server_error"))
        else:
            self._emit(exchange, request, reply, cap, start)

    def _emit(self, exchange: Exchange, request: Request, reply: Reply | RawReply, cap: int | None, start: int) -> None:
        if isinstance(reply, RawReply):
            exchange.keep_alive = exchange.keep_alive and not reply.cut
            pieces = _raw_pieces(reply)
        elif request.get("stream"):
            pieces = _stream_pieces(reply, request, cap, exchange.body)
        else:
            rendered = render(reply, turn(request), cap)
            start += (len(rendered.tokens) - 1) * self._tpot
            pieces = [response(200, rendered.body(prompt_tokens(exchange.body)))]
        Emitter(exchange, pieces, start, self._tpot, self._timer, self.stats)


@lru_cache(maxsize=1024)
def _token_chunks(reply: Reply, turn: int, cap: int | None) -> tuple[bytes, ...]:
    """The tokens of a streamed reply as they are written, the response's head with the first."""
    first, *others = (chunk(token) for token in render(reply, turn, cap).tokens)
    return (response_head(200, (*_EVENTS, _CHUNKED)) + first, *others)


def _stream_pieces(reply: Reply, request: Request, cap: int | None, body: bytes) -> list[bytes]:
    place = turn(request)
    *others, last = _token_chunks(reply, place, cap)
    tail = render(reply, place, cap).tail(prompt_tokens(body), wants_usage(request))
    return [*others, last + chunk(tail) + LAST_CHUNK]


def _raw_pieces(reply: RawReply) -> list[bytes]:
    """The reply's pieces in chunks, or as they are if its headers give a length."""
    if any(name == b"content-length" for name, _ in reply.headers):
        head, pieces, end = response_head(reply.status, reply.headers), list(reply.pieces), b""
    else:
        head = response_head(reply.status, (*reply.headers, _CHUNKED))
        pieces = [chunk(piece) for piece in reply.pieces if piece]
        end = b"" if reply.cut else LAST_CHUNK
    pieces = pieces or [b""]
    pieces[0] = head + pieces[0]
    pieces[-1] += end
    return pieces


def _report_fault(error: Exception) -> None:
    """A script that raises is a bug of its author's: the client gets a 500, the log the traceback."""
    context = {"message": "The simulated service's script failed.", "exception": error}
    asyncio.get_running_loop().call_exception_handler(context)
