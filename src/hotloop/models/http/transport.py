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
from contextlib import suppress
from typing import Any, NamedTuple

from hotloop.errors import ConfigError, ConnectError
from hotloop.models.http.connection import Connection, Stale
from hotloop.models.http.proxy import Proxy, Tunnel, proxy_for
from hotloop.models.http.target import Target, parse_target
from hotloop.models.transport import Receiver

_SHORT = 1.0  # seconds that a spare connection must have lived to be replaced
_IDLE_LIMIT = 256  # connections kept; more are closed when their reply has ended
_LONG = 1 << 15  # bytes of a body that is not copied once more


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
        target = parse_target(url)
        proxy = proxy_for(target)
        head = _request_head(target, headers or {}, proxy)
        self._way = _Way(target, proxy, head, connect_timeout, tls)
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

    def __del__(self) -> None:
        """A transport that nobody holds any longer leaves no connection behind."""
        for loop, pool in getattr(self, "_pools", {}).items():
            if not loop.is_closed():
                with suppress(RuntimeError):  # closed just now
                    loop.call_soon_threadsafe(pool.abandon)

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
        return self._pools.setdefault(loop, _Pool(self._way, loop))


class _Way(NamedTuple):
    """How to get to a service, and what every request to it begins with."""

    target: Target
    proxy: Proxy | None
    head: bytes
    connect_timeout: float
    tls: ssl.SSLContext | None


class _Pool:
    """The connections of one event loop."""

    def __init__(self, way: _Way, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.target, self.proxy, self._head, self.connect_timeout, self._tls = way
        self.where = self.target.unix or f"{self.target.host}:{self.target.port}"
        self._idle: list[Connection] = []
        self._spares = 0
        self._closer: AsyncGenerator[None] | None = None
        self._opening: set[asyncio.Task[None]] = set()
        self._live: dict[Connection, float] = {}  # since when

    async def send(self, body: bytes, receiver: Receiver) -> None:
        head = b"%b%d\r\n\r\n" % (self._head, len(body))
        request = (head, body) if len(body) > _LONG else (head + body,)  # to copy a short one is cheaper
        connection = self._take()
        if connection is not None:
            try:
                return await connection.exchange(request, receiver, False)
            except Stale:
                pass
        connection = await self._connect()
        return await connection.exchange(request, receiver, True)

    async def warm(self, connections: int = 1) -> None:
        self._spares = max(self._spares, connections)
        missing = connections - len(self._idle)
        opened = await asyncio.gather(*(self._connect() for _ in range(missing)), return_exceptions=True)
        for each in opened:
            if isinstance(each, Connection):
                self.free(each)
        for each in opened:
            if isinstance(each, BaseException):
                raise each

    async def aclose(self) -> None:
        self._spares = 0
        if opening := list(self._opening):
            for task in opening:
                task.cancel()
            await asyncio.wait(opening)
        closer, self._closer = self._closer, None
        if closer is not None:
            await closer.aclose()

    def abandon(self) -> None:
        """Close what is idle now, and the rest when its reply has ended."""
        self._spares, self._closer = 0, None
        for connection in list(self._idle):
            connection.abort()

    def _take(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
        return None

    def free(self, connection: Connection) -> None:
        """See `Pool.free`."""
        if connection.usable and len(self._idle) < _IDLE_LIMIT and self._closer is not None:
            self._idle.append(connection)
        else:
            connection.abort()

    def opened(self, connection: Connection) -> None:
        """See `Pool.opened`."""
        self._live[connection] = self.loop.time()

    def lost(self, connection: Connection) -> None:
        """See `Pool.lost`."""
        since = self._live.pop(connection, 0.0)
        if connection not in self._idle:
            return
        self._idle.remove(connection)
        if self.loop.time() - since < _SHORT:
            self._spares = 0  # nor does the server keep the next one
        if len(self._idle) < self._spares and not self.loop.is_closed():
            task = self.loop.create_task(self._reopen())
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _reopen(self) -> None:
        try:
            self.free(await self._connect())
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

    async def _connect(self) -> Connection:
        if self._closer is None:
            self._closer = self._keep_until_closed()
            await anext(self._closer)
        begun = Connection(self)
        try:
            async with asyncio.timeout(self.connect_timeout):
                await self._open(begun)
        except (OSError, UnicodeError) as fault:
            begun.forget()
            raise ConnectError(_connect_fault(fault, self)) from fault
        except BaseException:
            begun.forget()
            raise
        return begun

    async def _open(self, connection: Connection) -> None:
        loop, target, proxy = self.loop, self.target, self.proxy
        tls = (self._tls or _default_tls()) if target.tls else None
        if target.unix:
            await loop.create_unix_connection(lambda: connection, target.unix)
        elif proxy is None:
            name = target.host if tls else None
            await loop.create_connection(lambda: connection, target.host, target.port, ssl=tls, server_hostname=name)
        elif tls is None:
            await loop.create_connection(lambda: connection, proxy.host, proxy.port)
        else:
            await self._tunnel(connection, proxy, tls)

    async def _tunnel(self, connection: Connection, proxy: Proxy, tls: ssl.SSLContext) -> None:
        loop, target = self.loop, self.target
        plain, tunnel = await loop.create_connection(lambda: Tunnel(target, proxy), proxy.host, proxy.port)
        try:
            await tunnel.opened
            secure = await loop.start_tls(plain, connection, tls, server_hostname=target.host)
        except BaseException:
            plain.abort()
            raise
        assert secure is not None
        connection.connection_made(secure)


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


_tls_context: ssl.SSLContext | None = None


def _default_tls() -> ssl.SSLContext:
    """One verifying context for the process: reading the certificate store takes tens of milliseconds."""
    global _tls_context
    if _tls_context is None:
        _tls_context = ssl.create_default_context()
        _tls_context.set_alpn_protocols(["http/1.1"])
    return _tls_context


def _connect_fault(fault: OSError | UnicodeError, pool: _Pool) -> str:
    where, proxy = pool.where, pool.proxy
    peer = f"the proxy {proxy.host}:{proxy.port}, which the environment names for {where}" if proxy else where
    if isinstance(fault, TimeoutError):
        return f"No connection to {where} within {pool.connect_timeout:g} s."
    if isinstance(fault, ssl.SSLCertVerificationError):
        return f"The certificate of {where} is not trusted: {fault.verify_message}. Set SSL_CERT_FILE to its authority."
    if isinstance(fault, ssl.SSLError):
        return f"No TLS connection to {where}: {fault.reason or fault}."
    if isinstance(fault, socket.gaierror):
        return f"The name of {peer} cannot be resolved: {fault.strerror}."
    if isinstance(fault, ConnectionRefusedError):
        return f"Nothing listens at {peer}. Is it running, and is the {'variable' if proxy else 'endpoint'} right?"
    if isinstance(fault, UnicodeError):
        return f"{peer} is no possible name: {fault}."
    doubt = " Does it speak TLS?" if pool.target.tls else ""
    return f"No connection to {peer}: {fault.strerror or str(fault) or type(fault).__name__}.{doubt}"
