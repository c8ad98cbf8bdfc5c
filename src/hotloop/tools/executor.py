"""Runs the calls of one reply: validated, in parallel, each within its time, results in the order of the calls."""

from __future__ import annotations

import asyncio
import contextvars
import difflib
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

import msgspec

from hotloop.budget import Deadline
from hotloop.errors import ToolError, ToolTimeout, UnknownTool
from hotloop.events import ToolFinished, ToolStarted
from hotloop.limit import Limit, stop
from hotloop.models.reply import Call
from hotloop.models.transport import Emit
from hotloop.tools.cache import ResultCache
from hotloop.tools.progress import Reporter, reporter
from hotloop.tools.threads import pool
from hotloop.tools.tool import Tool, arguments_key, encode_result
from hotloop.trace.ledger import Kind, Ledger
from hotloop.units import NS_PER_S, ms

_log = logging.getLogger("hotloop.tools")
_RETRY_DELAY = 0.1  # seconds before the first retry of a tool, doubling
_Key = tuple[str, bytes]  # a tool and its canonical arguments


class ToolResult(msgspec.Struct, frozen=True, gc=False):
    """What the model reads of a call; `failed` is the error's text, "" if there was none.

    `retryable` tells that the same call may yet succeed: a tool that says by a ToolError why it could not, could not.
    """

    content: str
    failed: str = ""
    retryable: bool = False


class Policy(msgspec.Struct, frozen=True):
    """How tools run unless they say otherwise; times in seconds, `ttl` for read-only tools only."""

    max_parallel: int = 8
    timeout: float | None = 30.0
    retry: int = 0
    ttl: float | None = None


class _Ready(NamedTuple):
    """A tool with the policy that holds for it."""

    tool: Tool
    timeout: float | None
    retries: int
    ttl: float | None


class Executor:
    """The tools of one agent and how they run. `act` may be called concurrently, by many runs."""

    def __init__(self, tools: Sequence[Tool], policy: Policy) -> None:
        self.policy = policy
        self.cache = ResultCache()
        self.ready = {tool.name: _prepare(tool, policy) for tool in tools}

    async def act(
        self, calls: Sequence[Call], ids: Sequence[str], ledger: Ledger, emit: Emit, deadline: Deadline
    ) -> list[ToolResult]:
        """Run these calls; every one gets a result, failed or not, in the same order.

        Cancelled, it cancels what runs and returns when that has ended.
        """
        batch = _Batch(self, calls, ledger, emit, deadline)
        try:
            results = await _gather([batch.run(call, ids[lane], lane + 1) for lane, call in enumerate(calls)])
        finally:
            ledger.at = batch.last_end
        ledger.mark("overhead", "tools done")
        return results


class _Batch:
    """The calls of one reply on their way."""

    __slots__ = ("_deadline", "_emit", "_executor", "_flights", "_ledger", "_loop", "_places", "_since", "last_end")

    def __init__(
        self, executor: Executor, calls: Sequence[Call], ledger: Ledger, emit: Emit, deadline: Deadline
    ) -> None:
        self._executor = executor
        self._ledger = ledger
        self._emit = emit
        self._deadline = deadline
        self._loop = asyncio.get_running_loop()
        self._since = self.last_end = ledger.at
        places = executor.policy.max_parallel
        self._places = asyncio.Semaphore(places) if len(calls) > places else None
        repeated = len(calls) > 1 and len({call.name for call in calls}) < len(calls)
        self._flights: dict[_Key, asyncio.Future[ToolResult]] | None = {} if repeated else None

    async def run(self, call: Call, call_id: str, lane: int) -> ToolResult:
        """The result of one call: refused, known already, or worked for."""
        ready = self._executor.ready.get(call.name)
        try:
            if ready is None:
                raise UnknownTool(_unknown(call.name, self._executor.ready))
            arguments = ready.tool.bind(call.arguments)
        except ToolError as error:
            return self._refused(str(error), self._since, call, call_id, lane)
        if ready.tool.read_only and (ready.ttl or self._flights is not None):
            return await self._shared(ready, arguments, call, call_id, lane)
        return await self._work(ready, arguments, call, call_id, lane)

    async def _shared(
        self, ready: _Ready, arguments: dict[str, Any], call: Call, call_id: str, lane: int
    ) -> ToolResult:
        """The result of a read-only call, which may come from the cache or from an identical call in flight."""
        key = (call.name, arguments_key(arguments))
        cache, clock = self._executor.cache, self._ledger.clock
        if ready.ttl and (content := cache.get(key, clock)) is not None:
            return self._known(ToolResult(content), "cache", "cached", call, call_id, lane)
        flights = self._flights if self._flights is not None else {}
        if (flight := flights.get(key)) is not None:
            return self._known(await asyncio.shield(flight), "wait", "joined", call, call_id, lane)
        flight = flights[key] = self._loop.create_future()
        try:
            result = await self._work(ready, arguments, call, call_id, lane)
        except BaseException:
            flight.cancel()
            raise
        flight.set_result(result)
        if ready.ttl and not result.failed:
            cache.put(key, result.content, ready.ttl, clock)
        return result

    async def _work(self, ready: _Ready, arguments: dict[str, Any], call: Call, call_id: str, lane: int) -> ToolResult:
        """Run the tool once there is a free place for it."""
        ledger = self._ledger
        since = self._since if self._places is None else await self._place(self._places, call, lane)
        try:
            start = ledger.clock()
            ledger.add("overhead", since, start, lane)
            if self._deadline.answer_now(start):
                reason = f"{call.name} was not started: there is only time left to answer."
                return self._refused(reason, start, call, call_id, lane)
            self._emit([ToolStarted(call_id, call.name, call.arguments, ready.tool.status_text(arguments))])
            result = await self._attempt(ready, arguments, call_id)
            for retry in range(ready.retries):
                if not result.retryable or not await self._pause(retry):
                    break
                result = await self._attempt(ready, arguments, call_id)
        except BaseException:
            self._end("tool", start, ledger.clock(), call, lane, "cancelled")
            raise
        finally:
            if self._places is not None:
                self._places.release()
        end = ledger.clock()
        self._end("tool", start, end, call, lane, "failed" if result.failed else "")
        outcome = "error" if result.failed else "ok"
        self._emit([ToolFinished(call_id, call.name, result.content, outcome, ms(end - start))])
        return result

    async def _place(self, places: asyncio.Semaphore, call: Call, lane: int) -> int:
        """Wait for one of the places; returns since when it is held."""
        if not places.locked():
            await places.acquire()
            return self._since
        await places.acquire()
        now = self._ledger.clock()
        self._ledger.add("wait", self._since, now, lane, call.name, "for a free place")
        return now

    async def _pause(self, retry: int) -> bool:
        """Wait before this retry; False if there is no time for it."""
        delay = _RETRY_DELAY * 2**retry
        left = self._deadline.for_tools_ns(self._ledger.clock())
        if left is not None and left <= delay * NS_PER_S:
            return False
        await asyncio.sleep(delay)
        return True

    async def _attempt(self, ready: _Ready, arguments: dict[str, Any], call_id: str) -> ToolResult:
        tool = ready.tool
        limit = Limit(self._time_for(ready), self._loop)
        token = reporter.set(Reporter(self._emit, self._loop, limit, call_id, tool.name))
        try:
            with limit:
                if tool.is_async:
                    value = await tool.function(**arguments)
                else:
                    value = await self._in_thread(tool.function, arguments)
            return ToolResult(encode_result(value))
        except asyncio.CancelledError:
            if limit.cancelled:
                raise
            return _failure(tool, ToolError(f"{tool.name} was cancelled from inside."))
        except Exception as error:
            if limit.expired and isinstance(error, TimeoutError):
                error = ToolTimeout(f"{tool.name} did not finish within {limit.seconds:g} s.")
            return _failure(tool, error)
        finally:
            reporter.reset(token)

    def _time_for(self, ready: _Ready) -> float | None:
        """Seconds that the tool has: its timeout, or less when the run's deadline comes first."""
        left = self._deadline.for_tools_ns(self._ledger.clock())
        if left is None:
            return ready.timeout
        return left / NS_PER_S if ready.timeout is None else min(left / NS_PER_S, ready.timeout)

    async def _in_thread(self, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        threads = pool(self._executor.policy.max_parallel)
        context = contextvars.copy_context()
        result = await self._loop.run_in_executor(threads, lambda: context.run(_call, function, arguments))
        return await result if asyncio.iscoroutine(result) else result

    def _refused(self, reason: str, since: int, call: Call, call_id: str, lane: int) -> ToolResult:
        result = ToolResult(_error_content(reason), reason)
        self._end("guard", since, self._ledger.clock(), call, lane, "refused")
        self._emit([ToolFinished(call_id, call.name, result.content, "error", 0.0)])
        return result

    def _known(self, result: ToolResult, kind: Kind, how: str, call: Call, call_id: str, lane: int) -> ToolResult:
        """A result that this call did not have to work for."""
        now = self._ledger.clock()
        self._end(kind, self._since, now, call, lane, how)
        outcome = "error" if result.failed else how
        self._emit([ToolFinished(call_id, call.name, result.content, outcome, ms(now - self._since))])
        return result

    def _end(self, kind: Kind, start: int, end: int, call: Call, lane: int, note: str) -> None:
        self._ledger.add(kind, start, end, lane, call.name, note)
        if end > self.last_end:
            self.last_end = end


def _prepare(tool: Tool, policy: Policy) -> _Ready:
    """Only read-only and idempotent tools may run twice, and only results of read-only ones are kept."""
    retries = tool.retry if tool.retry is not None else policy.retry
    return _Ready(
        tool,
        tool.timeout if tool.timeout is not None else policy.timeout,
        retries if tool.read_only or tool.idempotent else 0,
        (tool.ttl if tool.ttl is not None else policy.ttl) if tool.read_only else None,
    )


def _call(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    try:
        return function(**arguments)
    except StopIteration as error:  # no future can carry it
        raise RuntimeError(f"StopIteration: {error}") from error


async def _gather(runs: list[Coroutine[Any, Any, ToolResult]]) -> list[ToolResult]:
    """All results in order, the first run in this task; if it is cancelled, all have ended when it raises."""
    if len(runs) == 1:
        return [await runs[0]]
    tasks = [asyncio.create_task(run) for run in runs[1:]]
    try:
        return [await runs[0], *[await task for task in tasks]]
    except BaseException:
        await stop(tasks)
        raise


def _failure(tool: Tool, error: Exception) -> ToolResult:
    """What the model is told of a tool's failure; one that the tool did not foresee is logged too."""
    words = _words(error)
    if isinstance(error, ToolError):
        reason = words or f"{tool.name} failed."
        return ToolResult(_error_content(reason), reason, error.retryable)
    reason = f"{tool.name} failed: {type(error).__name__}{words and f': {words}'}"
    _log.warning("The tool %s", reason, exc_info=error)
    return ToolResult(_error_content(reason), reason, True)


def _words(error: Exception) -> str:
    """The error's text as far as it has one and UTF-8 can carry it: file names, for one, may have odd bytes."""
    try:
        return str(error).encode(errors="backslashreplace").decode()
    except Exception:
        return ""


def _error_content(reason: str) -> str:
    return msgspec.json.encode({"error": reason}).decode()


def _unknown(name: str, tools: dict[str, _Ready]) -> str:
    close = difflib.get_close_matches(name, tools, 1)
    meant = f" Did you mean {close[0]}?" if close else ""
    return f"There is no tool {name}.{meant} The tools are: {', '.join(tools) or 'none'}."
