"""One connection to an MCP server, from its opening to its end. Imports the SDK, so it is itself imported late."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import Context, copy_context
from importlib.metadata import version
from typing import Any, TypeVar

import anyio
from mcp import Client, MCPError, types
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.dispatcher import ProgressFnT
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from hotloop.errors import ToolError, ToolUnavailable
from hotloop.tools.mcp import faults
from hotloop.tools.mcp.connections import NotKnown
from hotloop.tools.mcp.endpoint import Endpoint
from hotloop.tools.mcp.listing import Listing, list_tools
from hotloop.tools.mcp.results import read_result
from hotloop.tools.mcp.transport import Answer, Tail, answer, http, stdio
from hotloop.tools.running.progress import remaining, report, reporter
from hotloop.tools.running.tracecontext import trace_headers

_log = logging.getLogger("hotloop.tools.mcp")
_CLOSING = 5.0  # seconds for a polite end
_LAST_WORDS = 0.5  # seconds in which a connection that was lost may say why
_GRACE = 0.1  # seconds in which a server can be told that its call is cancelled, unless it reads no more

T = TypeVar("T")


class Connection:
    """A connection in a task of its own: what the SDK opens must be closed in the task that opened it.

    `on_listed` is told what the server offers, after the opening and whenever that changes.
    """

    def __init__(self, endpoint: Endpoint, on_listed: Callable[[Listing], Awaitable[None]]) -> None:
        loop = asyncio.get_running_loop()
        self._endpoint = endpoint
        self._on_listed = on_listed
        self._answer, self._tail = Answer(), Tail(endpoint.name)
        self._opened: asyncio.Future[Client] = loop.create_future()
        self._listed: asyncio.Future[str] = loop.create_future()  # "", or why it could not be listed
        self._changed = asyncio.Event()
        self._why = ""  # why it is of no use any more, if so
        self._mute = False  # it did not list its tools in time
        self._life, self._serving = anyio.CancelScope(), anyio.CancelScope()
        # Not in the context of the first call, which would be with it for ever.
        self._task = loop.create_task(self._live(), context=Context())

    @property
    def usable(self) -> bool:
        """Whether it is open, or will be."""
        return not (self._why or self._serving.cancel_called)

    @property
    def gone(self) -> bool:
        """Whether nothing of it is left."""
        return self._task.done()

    async def opened(self) -> Client:
        """Wait until calls can be sent. Raises ToolUnavailable."""
        return await self._once(self._opened)

    async def listed(self) -> None:
        """Wait until the tools are listed; a server that could not list them is asked again. Raises ToolUnavailable."""
        if self.usable and self._listed.done() and self._listed.result():
            self._listed = asyncio.get_running_loop().create_future()
            self._changed.set()
        if fault := await self._once(self._listed):
            raise ToolUnavailable(fault)

    async def _once(self, known: asyncio.Future[T]) -> T:
        if not known.done():
            await asyncio.wait([known])
        if self._why:
            raise ToolUnavailable(self._why)
        return known.result()

    async def call(self, tool: str, arguments: dict[str, Any]) -> str:
        """Call a tool once, by its own name.

        Raises ToolError for what the tool or the server says against it, ToolUnavailable if the server cannot be
        reached, NotKnown if it can be, but not in this session.
        """
        client = await self.opened()
        here = Answer()
        token = answer.set(here)
        try:
            asked = client.call_tool(tool, arguments, _patience(), progress_callback=_teller(), meta=_meta())
            result = await self._answered(asked)
        except MCPError as error:
            raise await self._failure(error, here) from error
        except (RuntimeError, ValidationError) as error:
            raise ToolError(faults.unusable(self._endpoint, tool, error)) from error
        finally:
            answer.reset(token)
        return read_result(self._endpoint.name, result)

    async def _answered(self, call: Coroutine[Any, Any, types.CallToolResult]) -> types.CallToolResult:
        """What comes of the call. If it is cancelled the server is told; one that cannot be told is given up."""
        task = asyncio.create_task(call)
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            task.add_done_callback(_seen)
            try:
                await asyncio.wait([task], timeout=_GRACE)
            finally:
                if not task.done():
                    self.end()
            raise
        return task.result()

    def end(self, why: str = "") -> None:
        """Begin to close it; the first reason is the one that is told, and none is that somebody wanted it closed."""
        self._why = self._why or why or faults.closed(self._endpoint)
        (self._serving if self._opened.done() else self._life).cancel()
        self._opened.cancel()
        self._listed.cancel()

    async def aclose(self) -> None:
        """Close it; when this returns, the process has ended and all sockets are closed."""
        self.end()
        if self._mute:
            self._tail.hang_up()
        _, left = await asyncio.wait([self._task], timeout=_CLOSING)
        if left:
            self._life.cancel()
            await asyncio.wait(left)

    async def _live(self) -> None:
        answer.set(self._answer)
        why = ""
        if self._endpoint.timeout is not None:
            timer = asyncio.get_running_loop().call_later(self._endpoint.timeout, self._give_up)
            self._opened.add_done_callback(lambda _: timer.cancel())
        try:
            with self._life:
                async with self._connecting() as client:
                    await self._serve(client)
            why = faults.ended(self._endpoint, str(self._tail))
        except Exception as error:
            why = faults.unreachable(self._endpoint, error, self._answer.status, str(self._tail))
        finally:
            self.end(why)

    def _give_up(self) -> None:
        self.end(faults.silent(self._endpoint, str(self._tail)))
        self._tail.hang_up()  # nor would it answer a polite request to end

    def _connecting(self) -> Client:
        endpoint = self._endpoint
        way = stdio(endpoint, self._tail, self._serving.cancel) if endpoint.command else http(endpoint)
        myself = types.Implementation(name="hotloop", version=version("hotloop"))
        return Client(way, cache=None, client_info=myself, message_handler=self._notice)

    async def _serve(self, client: Client) -> None:
        """Be there for calls until somebody ends it, or it breaks."""
        self._opened.set_result(client)
        try:
            with self._serving:
                await self._keep_listed(client)
        finally:
            self._serving.cancel()  # no more calls, while it is being closed

    async def _keep_listed(self, client: Client) -> None:
        await self._list(client)
        async with self._told_of_changes(client):
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._list(client)

    @asynccontextmanager
    async def _told_of_changes(self, client: Client) -> AsyncGenerator[None]:
        """Servers of the newer protocol tell of other tools only if they are asked to."""
        tools = client.server_capabilities.tools
        async with AsyncExitStack() as stack:
            if client.protocol_version in MODERN_PROTOCOL_VERSIONS and tools is not None and tools.list_changed:
                try:
                    await stack.enter_async_context(client.listen(tools_list_changed=True))
                except (MCPError, SubscriptionLost) as error:
                    _log.debug("No news of changes: %s", error)
                else:
                    self._changed.set()  # they may have, before we listened
            yield

    async def _notice(self, message: types.ServerNotification | Exception) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._changed.set()

    async def _list(self, client: Client) -> None:
        self._answer.status = 0
        fault = ""
        try:
            with anyio.fail_after(self._endpoint.timeout):
                listing = await list_tools(client)
        except (MCPError, ValidationError, TimeoutError) as error:
            self._mute = isinstance(error, TimeoutError)
            fault = faults.unlisted(self._endpoint, error, self._answer.status)
            _log.warning("%s", fault)
        else:
            self._mute = False
            await self._on_listed(listing)
        if not self._listed.done():
            self._listed.set_result(fault)

    async def _failure(self, error: MCPError, here: Answer) -> ToolError:
        """What a failed call means for whoever made it."""
        if here.status == 404:
            self._why = faults.refused(self._endpoint, here.status)  # not its end: other calls may be answered yet
            return NotKnown(self._why)
        if here.status:
            return ToolUnavailable(faults.refused(self._endpoint, here.status))
        if error.code == types.CONNECTION_CLOSED:
            await asyncio.wait([self._task], timeout=_LAST_WORDS)
            if self._endpoint.url and not here.sent:
                return ToolUnavailable(self._why or faults.unreachable(self._endpoint, error, 0, ""))
            return ToolUnavailable(faults.lost(self._endpoint, self._why or error.message))
        return ToolError(faults.rejected(self._endpoint, error.message))


def _seen(task: asyncio.Task[Any]) -> None:
    """Nobody waits for the result of a cancelled call."""
    if not task.cancelled():
        task.exception()


def _patience() -> float | None:
    """Seconds for the answer: as many as the call has left, and some in which it is ended from here."""
    left = remaining()
    return None if left is None else left + _GRACE


def _meta() -> Any:
    return trace_headers() or None


def _teller() -> ProgressFnT | None:
    """What tells the run of this call of the tool's progress; None outside of a run."""
    if reporter.get() is None:
        return None
    here = copy_context()

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        share = f"{progress:g} of {total:g}" if total else f"{progress:g}"
        here.run(report, f"{message} ({share})" if message else share)

    return tell
