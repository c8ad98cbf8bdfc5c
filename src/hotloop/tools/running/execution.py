"""One tool at work: within its time, once more where that may help, and what stands in when its time is over."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from hotloop.budget import Deadline
from hotloop.errors import ArgumentsError, ToolError, ToolTimeout
from hotloop.limit import Limit
from hotloop.models.transport import Emit
from hotloop.tools.defining.tool import TELL_MODEL, Tool, arguments_key, encode_result
from hotloop.tools.running.caller import Caller
from hotloop.tools.running.progress import Reporter, reporter
from hotloop.tools.running.result import ToolResult, failure
from hotloop.tools.running.threads import pool, pool_ahead
from hotloop.tools.running.tracecontext import enter_span, leave_span
from hotloop.units import NS_PER_S, Clock

_RETRY_DELAY = 0.1  # seconds before the first retry of a tool, doubling
FOREVER = Deadline(None, 0)
"""The deadline of an execution that belongs to no single run."""


class PreparedTool(NamedTuple):
    """A tool with the policy that holds for it; times in seconds.

    The model reads at most `max_result` tokens of a result, and one of at most `short` characters as it is. The tool
    runs `once` if it is tried once and nothing stands in for it. It `shares` if its results are kept or identical calls
    at the same time joined; it `invalidates` what others read.
    """

    tool: Tool
    timeout: float | None
    retries: int
    ttl: float | None
    max_result: int
    short: int
    once: bool
    shares: bool
    invalidates: bool
    threads: int
    stand_in: PreparedTool | None


class Execution(msgspec.Struct, eq=False, gc=False):
    """A call of a tool that may run now. `deadline` is the run's; a shared execution belongs to no single run.

    `afterwards` is called when the function of a plain tool has ended, which may be long after its time was over.
    `ahead` tells that the model has not made the call.
    """

    prepared: PreparedTool
    arguments: dict[str, Any]
    caller: Caller
    call_id: str
    clock: Clock
    emit: Emit
    deadline: Deadline
    afterwards: Callable[[], None] | None = None
    ahead: bool = False
    late: bool = False  # the last attempt ended because its time was over

    async def run(self) -> ToolResult:
        """The result after all attempts, or what stands in for it."""
        result = await self.attempt()
        for retry in range(self.prepared.retries):
            if not result.retryable or not await self._pause(retry):
                break
            result = await self.attempt()
        if self.late and self.prepared.tool.on_timeout is not TELL_MODEL:
            return await self._stand_in(result)
        return result

    async def attempt(self) -> ToolResult:
        """The result of one attempt."""
        tool = self.prepared.tool
        self.late = False
        loop = asyncio.get_running_loop()
        since = self.clock()
        limit = Limit(self._time(since), loop)
        token = reporter.set(
            Reporter(self.emit, loop, limit, self.caller, self.call_id, tool.name, self.clock, since, self.deadline)
        )
        span = None if self.caller.position is None else enter_span(self.caller, self.call_id)
        try:
            with limit:
                if tool.sandbox:
                    return ToolResult(await self._in_process())
                if tool.is_async:
                    value = await tool.function(**self.arguments)
                else:
                    value = await self._in_thread(tool.function)
            return ToolResult(encode_result(value))
        except asyncio.CancelledError:
            if limit.cancelled:
                raise
            return failure(tool, ToolError(f"{tool.name} was cancelled from inside."))
        except (Exception, SystemExit) as error:  # a tool that is a script may end itself, but not the agent
            if limit.expired and isinstance(error, TimeoutError):
                self.late = True
                error = ToolTimeout(f"{tool.name} did not finish within {limit.seconds:g} s.")
            return failure(tool, error)
        finally:
            if span is not None:
                leave_span(span)
            reporter.reset(token)

    async def _stand_in(self, late: ToolResult) -> ToolResult:
        """The value, or the other tool's result, that the tool gives when its time is over."""
        other = self.prepared.stand_in
        if other is None:
            return ToolResult(encode_result(self.prepared.tool.on_timeout), fallback=True)
        if self.deadline.answer_now(self.clock()):
            return late
        try:
            arguments = other.tool.bind(arguments_key(self.arguments).decode())
        except ArgumentsError as error:
            return failure(other.tool, error)
        result = await msgspec.structs.replace(self, prepared=other, arguments=arguments).run()
        return ToolResult(result.content, result.failed, fallback=True)

    async def _pause(self, retry: int) -> bool:
        """Wait before this retry; False if there is no time for it."""
        delay = _RETRY_DELAY * 2**retry
        left = self.deadline.for_tools_ns(self.clock())
        if left is not None and left <= delay * NS_PER_S:
            return False
        await asyncio.sleep(delay)
        return True

    def _time(self, now: int) -> float | None:
        """Seconds that the tool has: its timeout, or less when the run's deadline comes first."""
        left = self.deadline.for_tools_ns(now)
        if left is None:
            return self.prepared.timeout
        return left / NS_PER_S if self.prepared.timeout is None else min(left / NS_PER_S, self.prepared.timeout)

    async def _in_process(self) -> str:
        from hotloop.tools.sandbox import run_sandboxed

        return await run_sandboxed(self.prepared.tool, self.arguments)

    async def _in_thread(self, function: Callable[..., Any]) -> Any:
        context = contextvars.copy_context()

        def work() -> Any:
            try:
                return context.run(function, **self.arguments)
            except (StopIteration, SystemExit) as error:  # no future can carry them
                raise RuntimeError(f"{type(error).__name__}: {error}") from error
            finally:
                if self.afterwards is not None:
                    self.afterwards()

        threads = pool_ahead() if self.ahead else pool(self.prepared.threads)
        result = await asyncio.get_running_loop().run_in_executor(threads, work)
        return await result if asyncio.iscoroutine(result) else result
