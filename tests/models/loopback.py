"""A service on loopback that does byte by byte what a test says, and a receiver that notes what comes of it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from hotloop.models.transport import Throttle

Header = tuple[bytes, bytes]


class Request(NamedTuple):
    line: str
    headers: dict[str, str]
    body: bytes


class Peer:
    """One connection, seen from the service."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.requests: list[Request] = []

    async def head(self) -> tuple[str, dict[str, str]]:
        """The next request's line and headers."""
        line, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
        return line, {name.lower(): value for name, _, value in (each.partition(": ") for each in lines)}

    async def request(self) -> Request:
        """The next request, read to its end."""
        line, headers = await self.head()
        body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        self.requests.append(Request(line, headers, body))
        return self.requests[-1]

    async def send(self, *pieces: bytes) -> None:
        """Each piece in a write of its own."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0)

    async def is_closed(self) -> None:
        """Return when the other end has closed the connection."""
        with suppress(ConnectionError):
            while await self.reader.read(65536):
                pass

    def abort(self) -> None:
        """Close at once, with a reset."""
        self.writer.transport.abort()


Handle = Callable[[Peer], Awaitable[None]]


@dataclass
class Service:
    """Where the service is and whom it has seen."""

    url: str = ""
    port: int = 0
    peers: list[Peer] = field(default_factory=list)
    faults: list[BaseException] = field(default_factory=list)

    @property
    def requests(self) -> list[Request]:
        return [request for peer in self.peers for request in peer.requests]


@asynccontextmanager
async def service(handle: Handle, *, tls: ssl.SSLContext | None = None, unix: str = "") -> AsyncGenerator[Service]:
    """A service that does `handle` on each connection; what goes wrong in it is raised at the end."""
    seen = Service()
    tasks: set[asyncio.Task[Any]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer)
        seen.peers.append(peer)
        task = asyncio.ensure_future(serve(peer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def serve(peer: Peer) -> None:
        try:
            await handle(peer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except Exception as fault:
            seen.faults.append(fault)
        finally:
            peer.writer.close()

    if unix:
        server = await asyncio.start_unix_server(connected, unix)
    else:
        server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
        seen.port = server.sockets[0].getsockname()[1]
        seen.url = f"http{'s' if tls else ''}://localhost:{seen.port}/v1/chat/completions"
    try:
        yield seen
    finally:
        for _ in range(5):
            await asyncio.sleep(0)  # connections that are just being accepted
        server.close()
        for task in list(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for peer in seen.peers:
            peer.abort()
    if seen.faults:
        raise seen.faults[0]


def reply(body: bytes = b"ok", status: int = 200, *headers: str) -> bytes:
    """A reply with a content-length."""
    lines = "".join(f"{each}\r\n" for each in headers)
    return f"HTTP/1.1 {status} X\r\n{lines}content-length: {len(body)}\r\n\r\n".encode() + body


def chunked(*chunks: bytes, end: bool = True) -> bytes:
    """A chunked reply."""
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + body + (b"0\r\n\r\n" if end else b"")


async def answer(peer: Peer) -> None:
    """Answer every request with its body."""
    while True:
        await peer.send(reply((await peer.request()).body))


class Got:
    """A receiver that keeps everything; it is done when the body ends in `until`."""

    def __init__(self, until: bytes | None = None) -> None:
        self.connected: list[bool] = []
        self.status = 0
        self.heads = 0
        self.headers: list[Header] = []
        self.chunks: list[bytes] = []
        self.throttle: Throttle | None = None
        self.arrived = asyncio.Event()
        self.was_sent = asyncio.Event()
        self._until = until

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    def sent(self, connected: bool, throttle: Throttle | None) -> None:
        self.connected.append(connected)
        self.throttle = throttle
        self.was_sent.set()

    def head(self, status: int, headers: list[Header]) -> None:
        self.status, self.headers = status, headers
        self.heads += 1

    def data(self, chunk: bytes) -> bool:
        assert chunk
        self.chunks.append(chunk)
        self.arrived.set()
        return self._until is not None and self.body.endswith(self._until)


def sockets() -> set[str]:
    """The sockets that this process has open."""
    found = set()
    for number in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.add(str(number.readlink()))
    return {each for each in found if each.startswith("socket:")}


async def eventually(condition: Callable[[], bool], seconds: float = 2.0) -> None:
    """Return as soon as this holds; fails if it does not within the time."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while not condition():
        assert loop.time() < until, "it did not come to hold in time"
        await asyncio.sleep(0.001)
