"""Tools from elsewhere: where they are asked for, once, and how an agent gets on while it does not know them yet."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from hotloop.errors import HotloopError
from hotloop.limit import stop
from hotloop.tools.defining.define import tool
from hotloop.tools.defining.tool import Tool

_log = logging.getLogger("hotloop.tools")


@runtime_checkable
class ToolSource(Protocol):
    """A server that lists its tools, such as an `MCPServer`."""

    @property
    def name(self) -> str:
        """What it is called in messages."""

    @property
    def connected(self) -> bool:
        """Whether this event loop has a connection that is open, or being opened; False where none runs."""

    def known(self) -> list[Tool] | None:
        """Its tools as they were listed before; None if they never were."""

    async def tools(self) -> list[Tool]:
        """Its tools as they are now. Raises HotloopError."""

    async def connect(self) -> None:
        """Be ready for calls. Raises HotloopError."""

    async def aclose(self) -> None:
        """End the connection; the next call opens it again."""


Offered = Tool | Callable[..., Any] | ToolSource


class Offer:
    """Tools, functions and sources as an agent was given them, in this order."""

    def __init__(self, given: Sequence[Offered]) -> None:
        self._parts = [each if isinstance(each, Tool | ToolSource) else tool(each) for each in given]
        self.sources = [each for each in self._parts if isinstance(each, ToolSource)]
        self._connecting: set[asyncio.Task[None]] = set()

    def known(self) -> list[Tool] | None:
        """All tools, as far as sources listed theirs before; None if one never did."""
        listings = [listing for source in self.sources if (listing := source.known()) is not None]
        return self._in_order(listings) if len(listings) == len(self.sources) else None

    async def listed(self) -> list[Tool]:
        """All tools, asked for where they are. Raises HotloopError."""
        answers = await asyncio.gather(*[source.tools() for source in self.sources], return_exceptions=True)
        listings: list[list[Tool]] = []
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            listings.append(answer)
        return self._in_order(listings)

    def connect(self) -> None:
        """Connect what is not connected, beside whatever else goes on; a call that comes too early waits."""
        for source in self.sources:
            if not source.connected:
                task = asyncio.create_task(_connected(source))
                self._connecting.add(task)
                task.add_done_callback(self._connecting.discard)

    async def connected(self) -> None:
        """Connect all sources; the log says of one that cannot be connected why."""
        await asyncio.gather(*[_connected(source) for source in self.sources])

    async def aclose(self) -> None:
        """End all connections of this event loop."""
        here = asyncio.get_running_loop()
        await stop([task for task in list(self._connecting) if task.get_loop() is here])
        await asyncio.gather(*[source.aclose() for source in self.sources])

    def _in_order(self, listings: Iterable[list[Tool]]) -> list[Tool]:
        of_sources = iter(listings)
        parts = [[part] if isinstance(part, Tool) else next(of_sources) for part in self._parts]
        return [tool for part in parts for tool in part]


async def _connected(source: ToolSource) -> None:
    try:
        await source.connect()
    except HotloopError as error:  # the call that needs it will say so to the model
        _log.warning("%s", error)
