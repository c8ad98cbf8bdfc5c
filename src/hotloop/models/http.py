"""HTTP/1.1 for chat completions: one POST at a time per kept-alive connection, the body fed to a receiver as it comes.

An asyncio protocol around httptools. TLS with normal verification, CONNECT through HTTPS_PROXY, absolute requests
through HTTP_PROXY, unix sockets (`http+unix://%2Frun%2Fmodel.sock/v1`, `unix:/run/model.sock`). It retries nothing but
one thing: a kept-alive connection that the server had already closed is replaced once, before any byte of a reply.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

import httptools

from hotloop.errors import ConfigError, ConnectError, TransportError
from hotloop.models.proxy import Proxy, Tunnel, proxy_for
from hotloop.models.target import Target, parse_target
from hotloop.models.transport import Receiver

_IDLE_LIMIT = 256  # connections kept; more are closed when their reply has ended
_LINGER = 1.0  # seconds for a body to end after the service has said that the reply is complete


class HttpTransport:
    """Connections to one URL. `headers` go with every request; `tls` replaces the default TLS settings.

    Connections belong to the event loop that opened them; loops in several threads may share a transport.
    """

    def __init__(
        self,
        url: str,
        headers: dict[str, str] | None = None,
        *,
        connect_timeout: float = 5.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.target = parse_target(url)
        self.proxy = proxy_for(self.target)
        self.tls = tls
        self.connect_timeout = connect_timeout
        self.head = _request_head(self.target, headers or {}, self.proxy)
        self._pools: dict[asyncio.AbstractEventLoop, _Pool] = {}
        self._pool: _Pool | None = None

    def send(self, body: bytes, receiver: Receiver) -> Coroutine[Any, Any, None]:
        """See `Transport.send`."""
        return self._here().send(body, receiver)

    async def warm(self, connections: int = 1) -> None:
        """Open connections ahead, and keep so many open: one that the server closes is replaced."""
        await self._here().warm(connections)

    async def aclose(self) -> None:
        """Close all connections of this event loop, those in use included; they are closed when this returns."""
        await self._here().aclose()

    def _here(self) -> _Pool:
        loop, pool = asyncio.get_running_loop(), self._pool
        if pool is None or pool.loop is not loop:
            pool = self._pools.get(loop) or self._open_pool(loop)
            self._pool = pool
        return pool

    def _open_pool(self, loop: asyncio.AbstractEventLoop) -> _Pool:
        for other in list(self._pools):
            if other.is_closed():
                self._pools.pop(other, None)
        return self._pools.setdefault(loop, _Pool(self, loop))


class _Pool:
    """The connections of one event loop."""

    def __init__(self, transport: HttpTransport, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.target = transport.target
        self._transport = transport
        self._proxy = transport.proxy
        self._head = transport.head
        self._idle: list[_Connection] = []
        self._spares = 0
        self._closer: AsyncGenerator[None] | None = None
        self._opening: set[asyncio.Task[None]] = set()
        self._live: set[_Connection] = set()

    async def send(self, body: bytes, receiver: Receiver) -> None:
        request = b"%b%d\r\n\r\n%b" % (self._head, len(body), body)
        connection = self._take()
        if connection is not None:
            try:
                return await connection.exchange(request, receiver, False)
            except _Stale:
                pass
        connection = await self._connect()
        return await connection.exchange(request, receiver, True)

    async def warm(self, connections: int = 1) -> None:
        self._spares = max(self._spares, connections)
        missing = connections - len(self._idle)
        for connection in await asyncio.gather(*(self._connect() for _ in range(missing))):
            self._give_back(connection)

    async def aclose(self) -> None:
        self._spares = 0
        for task in self._opening:
            task.cancel()
        closer, self._closer = self._closer, None
        if closer is not None:
            await closer.aclose()

    def _take(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
        return None

    def _give_back(self, connection: _Connection) -> None:
        if connection.usable and len(self._idle) < _IDLE_LIMIT and self._closer is not None:
            self._idle.append(connection)
        else:
            connection.abort()

    def _lost(self, connection: _Connection) -> None:
        self._live.discard(connection)
        if connection not in self._idle:
            return
        self._idle.remove(connection)
        if len(self._idle) < self._spares and not self.loop.is_closed():
            task = self.loop.create_task(self._reopen())
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _reopen(self) -> None:
        try:
            self._give_back(await self._connect())
        except ConnectError:
            self._spares = 0  # the next request will say what is wrong

    async def _keep_until_closed(self) -> AsyncGenerator[None]:
        """Closes everything when the transport is closed, or when its event loop shuts down its generators."""
        try:
            yield
        finally:
            live = list(self._live)
            self._idle.clear()
            for connection in live:
                connection.abort()
            await asyncio.gather(*(connection.gone for connection in live))

    async def _connect(self) -> _Connection:
        if self._closer is None:
            self._closer = self._keep_until_closed()
            await anext(self._closer)
        try:
            async with asyncio.timeout(self._transport.connect_timeout):
                connection = await self._open(self.loop)
        except TimeoutError:
            raise ConnectError(
                f"No connection to {_where(self)} within {self._transport.connect_timeout:g} s."
            ) from None
        except OSError as fault:
            raise ConnectError(_connect_fault(fault, self)) from fault
        return connection

    async def _open(self, loop: asyncio.AbstractEventLoop) -> _Connection:
        target, proxy = self.target, self._proxy

        def factory() -> _Connection:
            return _Connection(self)

        if target.unix:
            return (await loop.create_unix_connection(factory, target.unix))[1]
        tls = (self._transport.tls or _default_tls()) if target.tls else None
        if proxy is None:
            name = target.host if tls else None
            return (await loop.create_connection(factory, target.host, target.port, ssl=tls, server_hostname=name))[1]
        if tls is None:
            return (await loop.create_connection(factory, proxy.host, proxy.port))[1]
        plain, tunnel = await loop.create_connection(lambda: Tunnel(target, proxy), proxy.host, proxy.port)
        try:
            await tunnel.opened
            connection = factory()
            secure = await loop.start_tls(plain, connection, tls, server_hostname=target.host)
        except BaseException:
            plain.abort()
            raise
        assert secure is not None
        connection.connection_made(secure)
        return connection


class _Stale(Exception):
    """A kept-alive connection turned out to be closed before any byte of the reply."""


class _Connection(asyncio.Protocol):
    """One kept-alive connection; the callbacks named `on_*` are httptools'."""

    def __init__(self, pool: _Pool) -> None:
        self._pool = pool
        self._parts: list[bytes] = []
        self.on_body = self._parts.append
        self._receiver: Receiver | None = None
        self._ended: asyncio.Future[None] | None = None
        self._fresh = True
        self._unsent = False
        self._linger: asyncio.TimerHandle | None = None
        self.usable = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self.usable:
            return  # told by the transport and by the tunnel
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self.usable = True
        self._reset()
        self._parser = httptools.HttpResponseParser(self)
        self._pool._live.add(self)

    async def exchange(self, request: bytes, receiver: Receiver, fresh: bool) -> None:
        self._receiver, self._fresh = receiver, fresh
        self._ended = self._loop.create_future()
        self._unsent = True
        self.transport.write(request)
        self._sent()
        try:
            await self._ended
        except asyncio.CancelledError:
            self.abort()
            raise

    def abort(self) -> None:
        self.usable = False
        self.transport.abort()

    def pause(self) -> None:
        if not self.transport.is_closing():
            self.transport.pause_reading()

    def resume(self) -> None:
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
        self._headers: list[tuple[bytes, bytes]] = []
        self._status = 0
        self._complete = self._keep = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        if self._status >= 200 and self._receiver is not None:
            self._receiver.head(self._status, self._headers)

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
        except httptools.HttpParserError as fault:
            self._fail(TransportError(f"{_where(self._pool)} does not speak HTTP/1.1: {fault}."))
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
        elif self._status == 0 and not self._fresh:
            self._fail(_Stale())
        else:
            self._fail(TransportError(f"{_where(self._pool)} closed the connection before its reply was complete."))
        self._pool._lost(self)
        if not self.gone.done():
            self.gone.set_result(None)

    def _finish(self) -> None:
        """The body has ended: the connection is free for the next request."""
        keep = self._keep
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        self._reset()
        self._receiver = None
        self._resolve()
        self._ended = None
        if keep and self.usable:
            self._pool._give_back(self)
        else:
            self.abort()

    def _resolve(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def _fail(self, error: Exception) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(error)


def _request_head(target: Target, headers: dict[str, str], proxy: Proxy | None) -> bytes:
    through = proxy is not None and not target.tls
    path = f"http://{target.authority}{target.path}" if through else target.path
    lines = [f"POST {path} HTTP/1.1", f"host: {target.authority}", "content-type: application/json"]
    for name, value in headers.items():
        if any(char in name + value for char in "\r\n\0"):
            raise ConfigError(f"The header {name!r} has a line break in its name or value.")
        lines.append(f"{name}: {value}")
    extra = proxy.authorization if through and proxy is not None else ""
    text = "\r\n".join(lines) + "\r\naccept-encoding: identity\r\n" + extra + "content-length: "
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError as fault:
        raise ConfigError(f"A header or the URL has a character that HTTP cannot carry: {fault.reason}.") from None


def _is_framed(headers: list[tuple[bytes, bytes]]) -> bool:
    return any(name.lower() in (b"content-length", b"transfer-encoding") for name, _ in headers)


_tls_context: ssl.SSLContext | None = None


def _default_tls() -> ssl.SSLContext:
    """One verifying context for the process: reading the certificate store takes tens of milliseconds."""
    global _tls_context
    if _tls_context is None:
        _tls_context = ssl.create_default_context()
        _tls_context.set_alpn_protocols(["http/1.1"])
    return _tls_context


def _where(pool: _Pool) -> str:
    target = pool.target
    return target.unix or f"{target.host}:{target.port}"


def _connect_fault(fault: OSError, pool: _Pool) -> str:
    where, through = _where(pool), f" (through the proxy {pool._proxy.host})" if pool._proxy else ""
    if isinstance(fault, ssl.SSLCertVerificationError):
        return f"The certificate of {where} is not trusted: {fault.verify_message}. Set SSL_CERT_FILE to its authority."
    if isinstance(fault, ssl.SSLError):
        return f"No TLS connection to {where}: {fault.reason or fault}."
    if isinstance(fault, socket.gaierror):
        return f"The name of {where} cannot be resolved{through}: {fault.strerror}."
    if isinstance(fault, ConnectionRefusedError):
        return f"Nothing listens at {where}{through}. Is the service running, and is the endpoint right?"
    return f"No connection to {where}{through}: {fault.strerror or fault}."
