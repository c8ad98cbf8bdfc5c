"""The connections to one MCP server: one for each event loop that calls it, opened when it is needed."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hotloop.errors import ToolUnavailable
from hotloop.tools.mcp.endpoint import Endpoint
from hotloop.tools.mcp.listing import Listing

if TYPE_CHECKING:
    from hotloop.tools.mcp.connection import Connection


class NotKnown(ToolUnavailable):
    """The server does not know this session any more, so it did nothing; in a new one it may."""


class Connections:
    """Opens connections, and again when one was lost. `on_listed` is told what the server offers."""

    def __init__(self, endpoint: Endpoint, on_listed: Callable[[Listing], Awaitable[None]]) -> None:
        self._endpoint = endpoint
        self._on_listed = on_listed
        self._by_loop: dict[asyncio.AbstractEventLoop, list[Connection]] = {}  # the last is in use

    @property
    def open_here(self) -> bool:
        """Whether this event loop has a connection that is open, or being opened; it has not where none runs."""
        try:
            return self._usable() is not None
        except RuntimeError:
            return False

    async def here(self) -> Connection:
        """The open connection of this event loop. Raises ToolUnavailable."""
        connection = self._usable() or await self._open()
        await connection.opened()
        return connection

    async def call(self, tool: str, arguments: dict[str, Any]) -> str:
        """Call a tool by its own name; a call that may have reached the server is never sent again.

        Raises ToolError for what the tool says, ToolUnavailable if the server cannot be reached.
        """
        connection = await self.here()
        try:
            return await connection.call(tool, arguments)
        except NotKnown:
            connection = await self.here()
            return await connection.call(tool, arguments)

    async def aclose(self) -> None:
        """Close what is open in this event loop."""
        connections = self._by_loop.pop(asyncio.get_running_loop(), [])
        await asyncio.gather(*(connection.aclose() for connection in connections))

    def __del__(self) -> None:
        """When nobody can call any more, nothing stays open."""
        for loop, connections in self._by_loop.items():
            for connection in connections:
                with suppress(RuntimeError):  # the loop is closed, and the connection with it
                    loop.call_soon_threadsafe(connection.end)

    def _usable(self) -> Connection | None:
        connections = self._by_loop.get(asyncio.get_running_loop())
        return connections[-1] if connections and connections[-1].usable else None

    async def _open(self) -> Connection:
        # The SDK takes a third of a second to import, in which the loop has better things to do.
        module = await asyncio.to_thread(importlib.import_module, "hotloop.tools.mcp.connection")
        if (faster := self._usable()) is not None:
            return faster
        for other in list(self._by_loop):
            if other.is_closed():
                self._by_loop.pop(other, None)
        leaving = [each for each in self._by_loop.get(asyncio.get_running_loop(), ()) if not each.gone]
        for each in leaving:
            each.end()
        connection: Connection = module.Connection(self._endpoint, self._on_listed)
        self._by_loop[asyncio.get_running_loop()] = [*leaving, connection]
        return connection
