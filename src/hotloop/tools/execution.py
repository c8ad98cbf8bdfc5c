"""One tool at work: within its time, once more where that may help, and what stands in when its time is over."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any, NamedTuple

from hotloop.budget import Deadline
from hotloop.errors import ToolError, ToolTimeout
from hotloop.limit import Limit
from hotloop.models.transport import Emit
from hotloop.tools.progress import Reporter, reporter
from hotloop.tools.result import ToolResult, failure
from hotloop.tools.threads import pool
from hotloop.tools.tool import TELL_MODEL, Tool, encode_result
from hotloop.units import NS_PER_S, Clock

_RETRY_DELAY = 0.1  # seconds before the first retry of a tool, doubling
FOREVER = Deadline(None, 0)
"""The deadline of an execution that belongs to no single run."""


class Ready(NamedTuple):
    """A tool with the policy that holds for it; times in seconds.

    It `shares` if its results are kept or identical calls at the same time joined; it `stales` what others have read.
    """

    tool: Tool
    timeout: float | None
    retries: int
    ttl: float | None
    max_result: int
    shares: bool
    stales: bool
    threads: int
    stand_in: Ready | None


class Execution:
    """A call of a tool that may run now. `deadline` is the run's; a shared execution belongs to no single run."""

    __slots__ = ("_arguments", "_call_id", "_clock", "_deadline", "_emit", "_late", "_loop", "_ready")

    def __init__(
        self,
        ready: Ready,
        arguments: dict[str, Any],
        call_id: str,
        clock: Clock,
        emit: Emit,
        deadline: Deadline = FOREVER,
    ) -> None:
        self._ready = ready
        self._arguments = arguments
        self._call_id = call_id
        self._clock = clock
        self._emit = emit
        self._deadline = deadline
        self._late = False  # the last attempt ended because its time was over
        self._loop = asyncio.get_running_loop()

    async def run(self) -> ToolResult:
        """The result after all attempts, or what stands in for it."""
        result = await self._attempt()
        for retry in range(self._ready.retries):
            if not result.retryable or not await self._pause(retry):
                break
            result = await self._attempt()
        if self._late and self._ready.tool.on_timeout is not TELL_MODEL:
            return await self._stand_in()
        return result

    async def _attempt(self) -> ToolResult:
        tool = self._ready.tool
        self._late = False
        limit = Limit(self._time(), self._loop)
        token = reporter.set(Reporter(self._emit, self._loop, limit, self._call_id, tool.name))
        try:
            with limit:
                if tool.sandbox:
                    return ToolResult(await self._in_process())
                if tool.is_async:
                    value = await tool.function(**self._arguments)
                else:
                    value = await self._in_thread(tool.function)
            return ToolResult(encode_result(value))
        except asyncio.CancelledError:
            if limit.cancelled:
                raise
            return failure(tool, ToolError(f"{tool.name} was cancelled from inside."))
        except Exception as error:
            if limit.expired and isinstance(error, TimeoutError):
                self._late = True
                error = ToolTimeout(f"{tool.name} did not finish within {limit.seconds:g} s.")
            return failure(tool, error)
        finally:
            reporter.reset(token)

    async def _stand_in(self) -> ToolResult:
        """The value, or the other tool's result, that the tool gives when its time is over."""
        ready = self._ready
        if ready.stand_in is None:
            return ToolResult(encode_result(ready.tool.on_timeout), fallback=True)
        other = Execution(ready.stand_in, self._arguments, self._call_id, self._clock, self._emit, self._deadline)
        result = await other.run()
        return ToolResult(result.content, result.failed, fallback=True)

    async def _pause(self, retry: int) -> bool:
        """Wait before this retry; False if there is no time for it."""
        delay = _RETRY_DELAY * 2**retry
        left = self._deadline.for_tools_ns(self._clock())
        if left is not None and left <= delay * NS_PER_S:
            return False
        await asyncio.sleep(delay)
        return True

    def _time(self) -> float | None:
        """Seconds that the tool has: its timeout, or less when the run's deadline comes first."""
        left = self._deadline.for_tools_ns(self._clock())
        if left is None:
            return self._ready.timeout
        return left / NS_PER_S if self._ready.timeout is None else min(left / NS_PER_S, self._ready.timeout)

    async def _in_process(self) -> str:
        from hotloop.tools.sandbox import run_sandboxed

        return await run_sandboxed(self._ready.tool, self._arguments)

    async def _in_thread(self, function: Callable[..., Any]) -> Any:
        context = contextvars.copy_context()
        threads = pool(self._ready.threads)
        result = await self._loop.run_in_executor(threads, lambda: context.run(_call, function, self._arguments))
        return await result if asyncio.iscoroutine(result) else result


def _call(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    try:
        return function(**arguments)
    except StopIteration as error:  # no future can carry it
        raise RuntimeError(f"StopIteration: {error}") from error
