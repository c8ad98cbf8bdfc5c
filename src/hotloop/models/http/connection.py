"""One kept-alive HTTP/1.1 connection: a request goes out whole, the reply's body is fed to a receiver as it comes."""

from __future__ import annotations

import asyncio
from typing import Protocol

import httptools

from hotloop.errors import TransportError
from hotloop.models.transport import Receiver

_LINGER = 1.0  # seconds for a body to end after the service has said that the reply is complete


class Pool(Protocol):
    """Whoever keeps connections; `where` names their server in messages."""

    where: str

    def opened(self, connection: Connection) -> None:
        """It can be used."""

    def free(self, connection: Connection) -> None:
        """Its reply has ended: it can be used again."""

    def lost(self, connection: Connection) -> None:
        """It is closed."""


class Stale(Exception):
    """A kept-alive connection turned out to be closed before any byte of the reply."""


class _OutOfStep(Exception):
    """The server sends more than was asked for."""


class Connection(asyncio.Protocol):
    """One kept-alive connection; the callbacks named `on_*` are httptools'."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._parts: list[bytes] = []
        self.on_body = self._parts.append
        self._headers: dict[bytes, bytes] = {}
        self.on_header = self._headers.__setitem__  # as they are: they are read only if the reply is an error
        self._receiver: Receiver | None = None
        self._ended: asyncio.Future[None] | None = None
        self._fresh = True
        self._unsent = self.paused = self._begun = False
        self._linger: asyncio.TimerHandle | None = None
        self.usable = False
        self._reset()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self.usable:
            return  # told by the transport and by the tunnel
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self.usable = True
        self._parser = httptools.HttpResponseParser(self)
        self._pool.opened(self)

    async def exchange(self, request: tuple[bytes, ...], receiver: Receiver, fresh: bool) -> None:
        self._receiver, self._fresh = receiver, fresh
        ended = self._ended = self._loop.create_future()
        self._unsent = True
        for piece in request:  # `writelines` of CPython 3.12 and 3.13 does not say when the buffer is full
            self.transport.write(piece)
        self._sent()
        try:
            await ended
        except asyncio.CancelledError:
            if self._ended is ended:  # else the reply ended in the same moment, and another one may be under way
                self.abort()
            raise

    def abort(self) -> None:
        self.usable = False
        self.transport.abort()

    def forget(self) -> None:
        """Opening was given up: uvloop closes such a connection without a word to its protocol."""
        if self.usable:
            self.abort()
            self.connection_lost(None)

    def pause(self) -> None:
        if not self.transport.is_closing():
            self.paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        self.paused = False
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def pause_writing(self) -> None:
        self._unsent = False  # told when the socket has taken the rest

    def resume_writing(self) -> None:
        self._unsent = True
        self._sent()

    def _sent(self) -> None:
        if self._unsent and self._receiver is not None:
            self._unsent = False
            self._receiver.sent(self._fresh, self)

    def _reset(self) -> None:
        self._headers.clear()
        self._status = 0
        self._complete = self._keep = False

    def on_message_begin(self) -> None:
        if self._complete:
            raise _OutOfStep
        self._begun = True

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        if self._status >= 200 and self._receiver is not None:
            self._receiver.head(self._status, list(self._headers.items()))

    def on_message_complete(self) -> None:
        if self._status < 200:  # an interim reply
            self._reset()
        else:
            self._complete, self._keep = True, self._parser.should_keep_alive()

    def data_received(self, data: bytes) -> None:
        if self._ended is None:
            self.abort()  # nobody asked: the server is out of step
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as fault:
            self._keep = False
            if not self._complete:
                self._fail(TransportError(f"{self._pool.where} does not speak HTTP/1.1: {fault}."))
                self.abort()
                return
        done = False
        if self._parts:
            body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            self._parts.clear()
            done = self._receiver is not None and self._receiver.data(body)
        if self._complete:
            self._finish()
        elif done:
            self._receiver = None
            self._resolve()
            self._linger = self._loop.call_later(_LINGER, self.abort)

    def eof_received(self) -> None:
        self.usable = False

    def connection_lost(self, error: Exception | None) -> None:
        self.usable = False
        if self._linger is not None:
            self._linger.cancel()
        unframed = self._status >= 200 and not self._complete and not _is_framed(self._headers)
        if unframed and error is None:
            self._resolve()
        elif not self._begun and not self._fresh:
            self._fail(Stale())
        else:
            self._fail(TransportError(f"{self._pool.where} closed the connection before its reply was complete."))
        self._pool.lost(self)
        if not self.gone.done():
            self.gone.set_result(None)

    def _finish(self) -> None:
        """The body has ended: the connection is free for the next request."""
        keep = self._keep
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        self._reset()
        self._begun = False
        self._receiver = None
        self._resolve()
        self._ended = None
        if self.paused:
            self.resume()  # who held up this reply must not hold up the next
        if keep and self.usable:
            self._pool.free(self)
        else:
            self.abort()

    def _resolve(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def _fail(self, error: Exception) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(error)


def _is_framed(headers: dict[bytes, bytes]) -> bool:
    return any(name.lower() in (b"content-length", b"transfer-encoding") for name in headers)
