"""Tools from elsewhere: where they are asked for, once, and how an agent gets on while it does not know them yet."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from hotloop.errors import HotloopError
from hotloop.limit import stop
from hotloop.tools.define import tool
from hotloop.tools.tool import Tool

_log = logging.getLogger("hotloop.tools")


@runtime_checkable
class ToolSource(Protocol):
    """A server that lists its tools, such as an `MCPServer`."""

    @property
    def name(self) -> str:
        """What it is called in messages."""

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
        listed = {source.name: source.known() for source in self.sources}
        return None if None in listed.values() else self._in_order(listed)

    async def listed(self) -> list[Tool]:
        """All tools, asked for where they are. Raises HotloopError."""
        answers = await asyncio.gather(*[source.tools() for source in self.sources], return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return self._in_order({source.name: answer for source, answer in zip(self.sources, answers, strict=True)})

    def connect(self) -> None:
        """Connect the sources beside whatever else goes on; a call that comes too early waits."""
        for source in self.sources:
            task = asyncio.create_task(_connected(source))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def aclose(self) -> None:
        """End all connections of this event loop."""
        here = asyncio.get_running_loop()
        await stop([task for task in self._connecting if task.get_loop() is here])
        for source in self.sources:
            await source.aclose()

    def _in_order(self, listed: dict[str, Any]) -> list[Tool]:
        tools: list[Tool] = []
        for part in self._parts:
            tools += [part] if isinstance(part, Tool) else listed[part.name]
        return tools


async def _connected(source: ToolSource) -> None:
    try:
        await source.connect()
    except HotloopError as error:  # the call that needs it will say so to the model
        _log.warning("%s", error)
