"""The least of an HTTP/1.1 server that exact timing allows: requests come in whole, bytes go out when told."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import cast

import httptools

from hotloop.lab.render import error_body
from hotloop.lab.script import Headers

_MOST_BYTES = 32 << 20
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_LAST_CHUNK = b"0\r\n\r\n"
_CHUNKED = (b"transfer-encoding", b"chunked")
_JSON = (b"content-type", b"application/json")


class HttpExchange:
    """One request, and the way back to who sent it, which is a `Sink`. `left` is called if the client goes before."""

    __slots__ = ("_chunked", "_connection", "_head", "body", "keep_alive", "left", "method", "path")

    def __init__(self, connection: Connection, method: str, path: str, body: bytes, keep_alive: bool) -> None:
        self.method = method
        self.path = path
        self.body = body
        self.keep_alive = keep_alive
        self.left: Callable[[], None] | None = None
        self._connection = connection
        self._head: tuple[int, Headers] | None = None
        self._chunked = False

    def respond(self, status: int, body: bytes) -> None:
        """Send a complete JSON response."""
        self.head(status, (_JSON,))
        self.send((body,), True)

    def head(self, status: int, headers: Headers) -> None:
        """See `Sink`. It is written with the first bytes of the body."""
        self._head = status, headers

    def send(self, pieces: Sequence[bytes], over: bool) -> None:
        """See `Sink`."""
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if self._head is not None:
            data = self._begin(*self._head, data, over)
            self._head = None
        elif self._chunked and data:
            data = _chunk(data)
        if over and self._chunked:
            data += _LAST_CHUNK
        self._connection.write(data)
        if over:
            self._connection.answered(self.keep_alive)

    def cut(self) -> None:
        """See `Sink`."""
        self._connection.answered(False)

    def _begin(self, status: int, headers: Headers, data: bytes, over: bool) -> bytes:
        """The head and the first bytes of the body: of a known length, or in chunks."""
        if b"content-length" in dict(headers):
            return _response_head(status, headers) + data
        if over:
            return _response_head(status, (*headers, (b"content-length", b"%d" % len(data)))) + data
        self._chunked = True
        return _response_head(status, (*headers, _CHUNKED)) + (_chunk(data) if data else b"")


class Connection(asyncio.Protocol):
    """A client's connection: its requests are handed to `handle` one at a time, in their order."""

    def __init__(self, handle: Callable[[HttpExchange], None], connections: set[Connection]) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._handle = handle
        self._connections = connections
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[HttpExchange] = deque()
        self._current: HttpExchange | None = None
        self._target = b""
        self._body = bytearray()

    def abort(self) -> None:
        """Close now, whatever is under way."""
        self._transport.abort()

    def write(self, data: bytes) -> None:
        """Send bytes now, unless the client has gone."""
        if not self._transport.is_closing():
            self._transport.write(data)

    def answered(self, keep_alive: bool) -> None:
        """The response under way is complete."""
        self._current = None
        if not keep_alive:
            self._transport.close()
        elif self._waiting:
            asyncio.get_running_loop().call_soon(self._next)

    # asyncio calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # a server may ignore the wish to upgrade: the request itself is answered
        except httptools.HttpParserError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, f"This is not HTTP: {error}.")

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.discard(self)
        self._waiting.clear()
        if self._current is not None and self._current.left is not None:
            self._current.left()
        self.closed.set_result(None)

    # httptools calls these.

    def on_message_begin(self) -> None:
        self._target, self._body = b"", bytearray()

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"expect" and value.lower() == b"100-continue":
            self.write(_CONTINUE)

    def on_body(self, data: bytes) -> None:
        self._body += data
        if len(self._body) > _MOST_BYTES:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The request is larger than {_MOST_BYTES} bytes.")

    def on_message_complete(self) -> None:
        if self._transport.is_closing():
            return
        method, path = self._parser.get_method().decode(), self._target.partition(b"?")[0].decode("latin-1")
        self._waiting.append(HttpExchange(self, method, path, bytes(self._body), self._parser.should_keep_alive()))
        if self._current is not None or len(self._waiting) > 1:
            self._transport.pause_reading()  # the client sends ahead: let it wait
        else:
            self._next()

    def _next(self) -> None:
        if not self._waiting or self._current is not None:
            return
        self._current = exchange = self._waiting.popleft()
        if not self._waiting:
            self._transport.resume_reading()
        self._handle(exchange)

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        if self._current is None:
            body = error_body(message)
            self.write(_response_head(status, (_JSON, (b"content-length", b"%d" % len(body)))) + body)
        self._transport.close()


@lru_cache(maxsize=256)
def _response_head(status: int, headers: Headers) -> bytes:
    """The status line and headers of a response."""
    lines = [f"HTTP/1.1 {status} {_phrase(status)}".encode(), *(b"%b: %b" % header for header in headers)]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
