"""A service on loopback that notes each request byte by byte and answers as a test says; and documents for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from hotloop.limit import stop
from hotloop.tools.defining.tool import Tool
from hotloop.tools.openapi import tools_from_openapi


class Got(NamedTuple):
    """A request as it arrived."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        """The values of a header, None if it did not come."""
        values = [value for key, value in self.headers if key == name]
        return ", ".join(values) if values else None


Answer = Callable[[Got], bytes | None]
"""The bytes to send back; None is no answer at all."""


class Cut(bytes):
    """What is sent before the connection is closed."""


@dataclass
class Service:
    """Where the service is, whom it has seen, and how it answers."""

    url: str = ""
    answer: Answer = lambda got: reply()
    requests: list[Got] = field(default_factory=list)
    connections: int = 0
    open: set[asyncio.Task[None]] = field(default_factory=set)

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A client is there."""
        self.connections += 1
        task = asyncio.ensure_future(self._handle(reader, writer))
        self.open.add(task)
        task.add_done_callback(self.open.discard)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, kept alive."""
        try:
            while True:
                self.requests.append(await _read(reader))
                answer = self.answer(self.requests[-1])
                writer.write(answer or b"")
                await writer.drain()
                if isinstance(answer, Cut):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Got:
    line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
    method, target, _ = line.split(" ")
    headers = [(name.lower(), value) for name, _, value in (each.partition(": ") for each in lines)]
    length = int(dict(headers).get("content-length", 0))
    return Got(method, target, headers, await reader.readexactly(length))


def reply(body: bytes = b'{"done": true}', status: int = 200, *headers: str, kind: str = "application/json") -> bytes:
    """A response."""
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", *([f"content-type: {kind}"] if kind else [])]
    return "\r\n".join([*lines, *headers, "\r\n"]).encode() + body


@asynccontextmanager
async def serve(answer: Answer | None = None) -> AsyncGenerator[Service]:
    """A service on a free port."""
    service = Service()
    if answer:
        service.answer = answer
    server = await asyncio.start_server(service.connected, "127.0.0.1", 0)
    service.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield service
    finally:
        server.close()
        await stop(service.open)


def document(operation: dict[str, Any], path: str = "/it", method: str = "get", **more: Any) -> dict[str, Any]:
    """A document with one operation, `it`."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Test", "version": "1"},
        "paths": {path: {method: {"operationId": "it", **operation}}},
        **more,
    }


def tools(folder: Path, content: dict[str, Any], **options: Any) -> list[Tool]:
    """The tools of a document, by way of a file."""
    file = folder / "api.json"
    file.write_text(json.dumps(content))
    return tools_from_openapi(file, **{"base_url": "http://localhost:1", **options})
