"""Runs the calls of one reply: validated, in parallel, each within its time, results in the order of the calls."""

from __future__ import annotations

import asyncio
import contextvars
import difflib
import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from hotloop.budget import Deadline
from hotloop.errors import ToolError, ToolTimeout, UnknownTool
from hotloop.events import Event, ToolFinished, ToolStarted, ToolStatus
from hotloop.models.reply import Call
from hotloop.tools.cache import ResultCache
from hotloop.tools.progress import reporter
from hotloop.tools.threads import pool
from hotloop.tools.tool import Tool, encode_result
from hotloop.trace.ledger import Ledger
from hotloop.units import NS_PER_S, ms

_log = logging.getLogger("hotloop.tools")
_RETRY_DELAY = 0.1  # seconds before the first retry of a tool, doubling


class Emit(Protocol):
    """Takes events as they happen."""

    def __call__(self, events: Sequence[Event]) -> None: ...


class ToolResult(NamedTuple):
    """What the model reads of a call; `failed` is the error's text, "" if there was none."""

    content: str
    failed: str = ""


class Policy(msgspec.Struct, frozen=True):
    """How tools run unless they say otherwise; times in seconds, `ttl` for read-only tools only."""

    max_parallel: int = 8
    timeout: float | None = 30.0
    retry: int = 0
    ttl: float | None = None


class Executor:
    """The tools of one agent and how they run. `act` may be called concurrently, by many runs."""

    def __init__(self, tools: Sequence[Tool], policy: Policy) -> None:
        self.tools = {tool.name: tool for tool in tools}
        self.policy = policy
        self.cache = ResultCache()

    async def act(
        self, calls: Sequence[Call], ids: Sequence[str], ledger: Ledger, emit: Emit, deadline: Deadline
    ) -> list[ToolResult]:
        """Run these calls; every one gets a result, failed or not, in the same order.

        Cancelled, it cancels what runs and returns when that has ended.
        """
        batch = _Batch(self, ledger, emit, deadline)
        since = ledger.at
        if len(calls) == 1:
            results = [await batch.run(calls[0], ids[0], 1)]
        else:
            results = await _gather([batch.run(call, ids[lane], lane + 1) for lane, call in enumerate(calls)])
        ledger.at = max(batch.last_end, since)
        ledger.mark("overhead", "tools done")
        return results


class _Batch:
    """The calls of one reply on their way."""

    __slots__ = ("_deadline", "_emit", "_executor", "_flights", "_ledger", "_since", "_slots", "last_end")

    def __init__(self, executor: Executor, ledger: Ledger, emit: Emit, deadline: Deadline) -> None:
        self._executor = executor
        self._ledger = ledger
        self._emit = emit
        self._deadline = deadline
        self._since = self.last_end = ledger.at
        self._slots = asyncio.Semaphore(executor.policy.max_parallel)
        self._flights: dict[tuple[str, bytes], asyncio.Future[ToolResult]] = {}

    async def run(self, call: Call, call_id: str, lane: int) -> ToolResult:
        tool = self._executor.tools.get(call.name)
        try:
            if tool is None:
                raise UnknownTool(_unknown(call.name, self._executor.tools))
            arguments = tool.bind(call.arguments)
        except ToolError as error:
            return self._refused(call, call_id, lane, str(error))
        if not tool.read_only:
            return await self._in_slot(tool, arguments, call, call_id, lane, None)
        key = (tool.name, msgspec.json.encode(arguments, order="deterministic"))
        flight = self._flights.get(key)
        if flight is not None:
            return await self._join(flight, call, call_id, lane)
        flight = self._flights[key] = asyncio.get_running_loop().create_future()
        try:
            result = await self._in_slot(tool, arguments, call, call_id, lane, key)
        except BaseException:
            flight.cancel()
            raise
        flight.set_result(result)
        return result

    def _refused(self, call: Call, call_id: str, lane: int, reason: str) -> ToolResult:
        content = _error_content(reason)
        now = self._ledger.clock()
        self._end("guard", self._since, now, lane, call.name, "refused")
        self._emit([ToolFinished(call_id, call.name, content, "error", 0.0)])
        return ToolResult(content, reason)

    async def _join(self, flight: asyncio.Future[ToolResult], call: Call, call_id: str, lane: int) -> ToolResult:
        """An identical read-only call is in flight: its result answers both."""
        result = await asyncio.shield(flight)
        now = self._ledger.clock()
        self._end("cache", self._since, now, lane, call.name, "joined")
        self._emit([ToolFinished(call_id, call.name, result.content, "joined", ms(now - self._since))])
        return result

    async def _in_slot(
        self, tool: Tool, arguments: dict[str, Any], call: Call, call_id: str, lane: int, key: tuple[str, bytes] | None
    ) -> ToolResult:
        ledger = self._ledger
        ttl = (tool.ttl if tool.ttl is not None else self._executor.policy.ttl) if key else None
        if key and ttl and (content := self._executor.cache.get(key, ledger.clock)) is not None:
            self._end("cache", self._since, ledger.clock(), lane, call.name, "hit")
            self._emit([ToolFinished(call_id, call.name, content, "cached", 0.0)])
            return ToolResult(content)
        full = self._slots.locked()
        async with self._slots:
            start = ledger.clock()
            if full:
                ledger.add("wait", self._since, start, lane, call.name, "for a free slot")
            else:
                ledger.add("overhead", self._since, start, lane, call.name)
            self._emit([ToolStarted(call_id, call.name, call.arguments, tool.status_text(arguments))])
            result = await self._attempts(tool, arguments, call_id)
        end = ledger.clock()
        self._end("tool", start, end, lane, call.name, "failed" if result.failed else "")
        outcome = "error" if result.failed else "ok"
        self._emit([ToolFinished(call_id, call.name, result.content, outcome, ms(end - start))])
        if key and ttl and not result.failed:
            self._executor.cache.put(key, result.content, ttl, ledger.clock)
        return result

    def _end(self, kind: Any, start: int, end: int, lane: int, name: str, note: str) -> None:
        self._ledger.add(kind, start, end, lane, name, note)
        self.last_end = max(self.last_end, end)

    async def _attempts(self, tool: Tool, arguments: dict[str, Any], call_id: str) -> ToolResult:
        again = (tool.retry if tool.retry is not None else self._executor.policy.retry) + 1
        if not (tool.read_only or tool.idempotent):
            again = 1
        delay = _RETRY_DELAY
        while True:
            again -= 1
            try:
                return ToolResult(encode_result(await self._timed(tool, arguments, call_id)))
            except Exception as error:
                reason = _reason(tool, error)
                left = self._deadline.for_tools_ns(self._ledger.clock())
                if not again or (left is not None and left < delay * NS_PER_S):
                    return ToolResult(_error_content(reason), reason)
            await asyncio.sleep(delay)
            delay *= 2

    async def _timed(self, tool: Tool, arguments: dict[str, Any], call_id: str) -> Any:
        timeout = tool.timeout if tool.timeout is not None else self._executor.policy.timeout
        left = self._deadline.for_tools_ns(self._ledger.clock())
        if left is not None and (timeout is None or left < timeout * NS_PER_S):
            timeout = left / NS_PER_S
        token = reporter.set(self._reporter(tool, call_id))
        try:
            async with asyncio.timeout(timeout) as limit:
                if tool.is_async:
                    return await tool.function(**arguments)
                return await self._in_thread(tool.function, arguments)
        except TimeoutError:
            if not limit.expired():
                raise
            raise ToolTimeout(f"{tool.name} did not finish within {timeout:g} s.") from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise ToolError(f"{tool.name} was cancelled from inside.") from None
        finally:
            reporter.reset(token)

    async def _in_thread(self, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        loop = asyncio.get_running_loop()
        threads = pool(self._executor.policy.max_parallel)
        context = contextvars.copy_context()
        result = await loop.run_in_executor(threads, lambda: context.run(_call, function, arguments))
        return await result if asyncio.iscoroutine(result) else result

    def _reporter(self, tool: Tool, call_id: str) -> Callable[[str], None]:
        loop, emit = asyncio.get_running_loop(), self._emit

        def tell(status: str) -> None:
            event = ToolStatus(call_id, tool.name, status)
            try:
                here = asyncio.get_running_loop() is loop
            except RuntimeError:
                here = False
            if here:
                emit([event])
            else:
                loop.call_soon_threadsafe(emit, [event])

        return tell


def _call(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    try:
        return function(**arguments)
    except StopIteration as error:  # no future can carry it
        raise RuntimeError(f"StopIteration: {error}") from error


async def _gather(runs: list[Any]) -> list[ToolResult]:
    """All results in order; if this is cancelled, all runs are, and have ended when it raises."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run) for run in runs]
    return [task.result() for task in tasks]


def _reason(tool: Tool, error: Exception) -> str:
    """What the model is told of a tool's failure; one that the tool did not foresee is logged too."""
    if isinstance(error, ToolError):
        return str(error)
    _log.warning("The tool %s failed: %s", tool.name, error, exc_info=error)
    return f"{tool.name} failed: {type(error).__name__}: {error}"


def _error_content(reason: str) -> str:
    return msgspec.json.encode({"error": reason}).decode()


def _unknown(name: str, tools: dict[str, Tool]) -> str:
    close = difflib.get_close_matches(name, tools, 1)
    meant = f" Did you mean {close[0]}?" if close else ""
    return f"There is no tool {name}.{meant} The tools are: {', '.join(tools) or 'none'}."
