"""The ways to an MCP server: a process on its standard streams, or streamable HTTP. Both are the SDK's own."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import shutil
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Self, TextIO

import httpx2
from mcp import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from hotloop.models.http.proxy import is_loopback
from hotloop.tools.mcp import keeper
from hotloop.tools.mcp.endpoint import Endpoint

_log = logging.getLogger("hotloop.tools.mcp")
_KEPT = 2_000  # bytes of stderr
_LAST_WORDS = 0.2  # seconds for the rest of stderr once the process is gone
_HTTP_TIMEOUT = httpx2.Timeout(30.0, read=300.0)  # what the SDK recommends: a server may hold a stream open


class Answer:
    """What came of a call over HTTP, which the SDK keeps to itself: whether it may have left, and an error's status."""

    sent = False
    status = 0


answer: ContextVar[Answer | None] = ContextVar("hotloop_mcp_answer", default=None)


class Tail(asyncio.Protocol):
    """The end of what a process writes to its standard error."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._kept = b""
        self._transport: asyncio.BaseTransport | None = None
        self.complete = asyncio.Event()

    def __str__(self) -> str:
        return self._kept.decode(errors="replace")

    def hang_up(self) -> None:
        """Read no more, upon which the process is ended."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.BaseProtocol.connection_made`."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol.data_received`."""
        self._kept = (self._kept + data)[-_KEPT:]
        _log.debug("%s: %s", self._name, data.decode(errors="replace").rstrip())

    def connection_lost(self, error: Exception | None) -> None:
        """See `asyncio.BaseProtocol.connection_lost`."""
        self.complete.set()


@asynccontextmanager
async def stdio(endpoint: Endpoint, tail: Tail, on_end: Callable[[], None]) -> AsyncGenerator[Any]:
    """Start the process and speak with it; `on_end` is called when there is no more to come from it."""
    command, *arguments = _kept(endpoint)
    server = StdioServerParameters(command=command, args=arguments, env=endpoint.env)
    async with _heard(tail) as theirs, stdio_client(server, theirs) as (messages, replies):
        theirs.close()  # the process has it now
        yield _Watched(messages, on_end), replies


def _kept(endpoint: Endpoint) -> list[str]:
    """The command, run so that it ends with us; on Windows the SDK sees to that. Raises OSError if it cannot be run."""
    command = endpoint.command[0]
    if os.name != "posix":
        return list(endpoint.command)
    if shutil.which(command, path=endpoint.env.get("PATH")) is None:
        number = errno.EACCES if Path(command).exists() else errno.ENOENT
        raise OSError(number, os.strerror(number))
    return [sys.executable, "-I", "-S", keeper.__file__, str(os.getpid()), *endpoint.command]


@asynccontextmanager
async def http(endpoint: Endpoint) -> AsyncGenerator[Any]:
    """Speak with the server at the URL."""
    hooks: Any = {"request": [_note_sending], "response": [_note_status]}
    proxies = not is_loopback(endpoint.host)
    async with (
        httpx2.AsyncClient(
            headers=endpoint.headers, timeout=_HTTP_TIMEOUT, event_hooks=hooks, trust_env=proxies
        ) as client,
        streamable_http_client(endpoint.url, http_client=client) as streams,
    ):
        yield streams


async def _note_sending(request: httpx2.Request) -> None:
    here = answer.get()  # the SDK sends a request in the context of whoever made the call

    async def trace(event: str, _: object) -> None:
        if here is not None and event.endswith("send_request_headers.started"):
            here.sent = True

    request.extensions["trace"] = trace


async def _note_status(response: httpx2.Response) -> None:
    here = answer.get()
    if here is not None and response.is_error and response.request.method == "POST":
        here.status = response.status_code


@asynccontextmanager
async def _heard(tail: Tail) -> AsyncGenerator[TextIO]:
    """The end of a pipe for somebody else to write to, while `tail` reads the other."""
    ours, theirs = os.pipe()
    with os.fdopen(theirs, "w") as writing:
        reading = os.fdopen(ours, "rb", 0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: tail, reading)
        try:
            yield writing
        finally:
            writing.close()
            try:
                await asyncio.wait_for(tail.complete.wait(), _LAST_WORDS)
            except TimeoutError:  # a child of the process has it still
                pass
            finally:
                transport.close()


class _Watched:
    """A stream of messages that tells when it has ended; as the SDK wants one."""

    def __init__(self, stream: Any, on_end: Callable[[], None]) -> None:
        self._stream = stream
        self._on_end = on_end

    async def receive(self) -> Any:
        return await self._stream.receive()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except StopAsyncIteration:
            self._on_end()
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
