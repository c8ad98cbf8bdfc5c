"""A proxy on loopback that does to the requests of a real service what networks do, on real sockets."""

from __future__ import annotations

import asyncio
import re
from typing import NamedTuple, Self

import httptools

from hotloop.lab.faults import Answer, Corrupt, Cut, Fault, Faults, Late, Refuse, Stall
from hotloop.limit import stop
from hotloop.models.http.target import parse_target

_HOST = re.compile(rb"(?<=\r\nhost:)[^\r]*", re.IGNORECASE)
_LENGTH = re.compile(rb"\r\ncontent-length:\s*([0-9]+)", re.IGNORECASE)
_MOST = 1 << 16
_FOR_EVER = 1e9  # seconds
_END = b"\r\n\r\n"


class FaultProxy:
    """Stands in front of the service at `url` while its `async with` block runs; ask at its own `url` instead.

    Each request meets the next of `faults`, None is none, and requests after the last go well. Bytes of a body are
    counted as they are on the wire, chunk sizes included. A connection cannot be refused once it is made: `Refuse`
    breaks it before any byte of the reply, as `Cut(None)` does, and a client that had kept it may at once ask anew.
    `met` is what was done so far.
    """

    def __init__(self, url: str, faults: Faults) -> None:
        self.met: list[Fault | None] = []
        self._target = parse_target(url)
        self._faults = iter(faults)
        self._serving: set[asyncio.Task[None]] = set()
        self._port = 0

    @property
    def url(self) -> str:
        """What to ask instead of the service's own URL."""
        return f"http://127.0.0.1:{self._port}{self._target.path}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await stop(self._serving)
        await self._server.wait_closed()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(_Pipe(reader, writer)))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        task.add_done_callback(lambda _: writer.transport.abort())  # also if it was stopped before it began

    async def _serve(self, client: _Pipe) -> None:
        """Answer the requests of one connection, on one connection to the service."""
        target = self._target
        service = None
        try:
            if target.unix:
                service = _Pipe(*await asyncio.open_unix_connection(target.unix))
            else:
                service = _Pipe(*await asyncio.open_connection(target.host, target.port, ssl=target.tls or None))
            ahead: bytes | None = b""
            while ahead is not None:
                ahead = await self._answer(client, service, ahead)
        except (OSError, EOFError, httptools.HttpParserError, _Broken):
            pass  # what has gone wrong the other end sees by its connection
        finally:
            if service is not None:
                service.writer.transport.abort()

    async def _answer(self, client: _Pipe, service: _Pipe, ahead: bytes) -> bytes | None:
        """Pass one request on and its reply back; returns what the client has sent ahead, None when it has gone."""
        head = ahead + await client.head()
        request = _HOST.sub(b" " + self._target.authority.encode(), head, count=1) + await client.body_of(head)
        fault = next(self._faults, None)
        self.met.append(fault)
        reply = asyncio.create_task(_reply(client, service, request, fault))
        watch = asyncio.create_task(client.reader.read(1))
        try:
            await asyncio.wait({reply, watch}, return_when=asyncio.FIRST_COMPLETED)
            ahead = watch.result() if watch.done() else b""
            if ahead or reply.done():
                await reply
                return ahead
            return None
        finally:
            await stop([reply, watch])


class _Broken(Exception):
    """The connection is to break here."""


class _Pipe(NamedTuple):
    """One connection, as streams."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def head(self) -> bytes:
        """Everything up to the end of the headers."""
        return await self.reader.readuntil(_END)

    async def body_of(self, head: bytes) -> bytes:
        """The body that a request with this head has."""
        length = _LENGTH.search(head)
        return await self.reader.readexactly(int(length[1])) if length else b""

    async def send(self, data: bytes) -> None:
        """Send it now."""
        self.writer.write(data)
        await self.writer.drain()


async def _reply(client: _Pipe, service: _Pipe, request: bytes, fault: Fault | None) -> None:
    """Have the request answered, or do what else is to happen. Raises _Broken where the connection is to break."""
    match fault:
        case Refuse() | Cut(None):
            raise _Broken
        case Answer():
            await client.send(_on_the_wire(fault))
        case _:
            if isinstance(fault, Late):
                await asyncio.sleep(fault.seconds)
            await service.send(request)
            await _relay(client, service, fault)


async def _relay(client: _Pipe, service: _Pipe, fault: Fault | None) -> None:
    ending = _Ending()
    parser = httptools.HttpResponseParser(ending)
    came = 0
    data = await service.head()
    parser.feed_data(data)
    await client.send(data)
    while not ending.reached:
        data = await service.reader.read(_MOST)
        if not data:
            raise _Broken  # a reply that ends with its connection, or breaks off by itself
        parser.feed_data(data)
        await _send(client, data, came, fault)
        came += len(data)


async def _send(client: _Pipe, data: bytes, came: int, fault: Fault | None) -> None:
    """Send bytes of a body, `came` of which have gone before, with what is to happen to them."""
    if isinstance(fault, Corrupt):
        data = fault.of(data, came)
    elif isinstance(fault, Cut | Stall) and fault.after is not None and came <= fault.after < came + len(data):
        await client.send(data[: fault.after - came])
        data = data[fault.after - came :]
        if isinstance(fault, Cut):
            raise _Broken
        await asyncio.sleep(_FOR_EVER if fault.seconds is None else fault.seconds)
    await client.send(data)


def _on_the_wire(answer: Answer) -> bytes:
    fields = [*answer.headers, (b"content-length", b"%d" % len(answer.body))]
    return b"HTTP/1.1 %d Fault\r\n%b\r\n%b" % (
        answer.status,
        b"".join(b"%b: %b\r\n" % each for each in fields),
        answer.body,
    )


class _Ending:
    """Learns from the parser when a reply is complete."""

    reached = False

    def on_message_complete(self) -> None:
        self.reached = True
