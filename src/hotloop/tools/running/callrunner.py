"""The way of one call: it waits for what it must, is guarded, found in the cache or worked for, and told.

Everything that happens to it gets an owner in the ledger and an event for whoever streams the run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from hotloop.budget import Deadline
from hotloop.errors import AuditError, ToolError
from hotloop.events import ToolFinished, ToolStarted
from hotloop.limit import Limit
from hotloop.tools.cutting.rest import READ_RESULT, read_rest
from hotloop.tools.defining.tool import Tool, arguments_key
from hotloop.tools.plan.filling import fill_in
from hotloop.tools.running.cache import Flight, Kept, Key, ResultCache
from hotloop.tools.running.execution import FOREVER, Execution, PreparedTool
from hotloop.tools.running.gate import Gate
from hotloop.tools.running.graph import resources
from hotloop.tools.running.job import Job, RunContext
from hotloop.tools.running.places import Places
from hotloop.tools.running.result import ToolResult, failed
from hotloop.trace.ledger import Kind
from hotloop.units import NS_PER_S, ms

if TYPE_CHECKING:
    from hotloop.tools.prefetch.begun import Begun
    from hotloop.tools.prefetch.prefetching import Prefetching
    from hotloop.tools.running.executor import Executor

_log = logging.getLogger("hotloop.tools")

_LEFT_OUT = "{} was left out, because there is little time: answer without it."

_GIVEN = ("ok", "joined", "fallback", "prefetched")  # what a result that turns out to be an error is told as otherwise


class CallRunner:
    """Takes the jobs of one reply to their ends. `last_end` is when the last of them ended (ns)."""

    __slots__ = ("_executor", "_firsts", "_gate", "_left", "_over", "_places", "_run", "ended", "last_end", "several")

    def __init__(self, executor: Executor, run: RunContext) -> None:
        self._executor = executor
        self._run = run
        self._gate = Gate(executor, run)
        self._places = Places(executor.policy.max_parallel)
        self._firsts: dict[tuple[str, bytes, frozenset[str]], Job] = {}  # by call, and by what they come after
        self._left = 0  # jobs that `all_taken` waits for
        self._over: asyncio.Future[None] | None = None
        self.several = False  # there may be identical calls
        self.last_end = 0
        self.ended: Callable[[str, int], None] | None = None

    async def take(self, job: Job) -> None:
        """Take this job to its result, or to where a person must decide."""
        try:
            if job.edges and not await self._wait(job):
                return
            if job.prepared is None and job.name == READ_RESULT and not job.fault:
                self._end(job, await self._rest(job), "cache", "ok")
                return
            prepared, arguments = job.prepared, job.arguments
            try:
                if job.fault or prepared is None or arguments is None or job.must:
                    prepared, arguments = self._bound(job)
                if self._gate.guarded and not await self._gate.admit(job, prepared.tool, arguments):
                    return
            except ToolError as error:
                self._end(job, failed(str(error)), "guard", job.outcome or "error")
                return
            if prepared.shares or self.several or self._run.ahead is not None:
                await self._answer(job, prepared, arguments)
            else:
                await self._work(job, prepared, arguments)
            if self._run.journal is not None and job.result is not None:
                await self._gate.record(job, job.result)
                self.last_end = self._run.ledger.clock()
        except BaseException:
            self._left = 1  # nobody waits for the others any more
            raise
        finally:
            job.over = True
            if job.done is not None:
                job.done.set()
            self._left -= 1
            if not self._left and self._over is not None and not self._over.done():
                self._over.set_result(None)

    async def shape_known(self, jobs: Sequence[Job]) -> None:
        """Shape results that an earlier process had recorded as the tools gave them."""
        for job in jobs:
            if job.result is not None:
                job.since = self._run.ledger.clock()
                job.result = await self._shaped(job, job.result)

    async def all_taken(self, jobs: Sequence[Job]) -> None:
        """Return when all of these have ended, or one has broken.

        A job tells so itself: to wait for its task would take one more turn of the event loop.
        """
        self._left = len([job for job in jobs if not job.over])
        if self._left:
            self._over = asyncio.get_running_loop().create_future()
            await self._over

    async def _wait(self, job: Job) -> bool:
        """Wait for the jobs that come first; False if one of them waits for a person."""
        first = [(other, why) for other, why in job.edges if other.result is None]
        if first:
            names = (f"{other.name} ({why})" if why else other.name for other, why in first)
            job.waited_for = ", ".join(dict.fromkeys(names))
            for other, _ in first:
                await other.ended()
            self._waited(job, f"for {job.waited_for}")
        return all(other.result is not None for other, _ in job.edges)

    def _bound(self, job: Job) -> tuple[PreparedTool, dict[str, Any]]:
        """The tool and its arguments; of a step with earlier results in their places. Raises ToolError."""
        if job.fault or job.prepared is None:
            raise ToolError(job.fault)
        if failures := [other.name for other in job.must if other.result is not None and other.result.failed]:
            raise ToolError(f"{job.name} was not run, because it comes after {failures[0]}, which failed.")
        if job.arguments is None and job.step is not None:  # any other call has its arguments from the start
            results = {other.step.id: _result(other).unshaped() for other in job.needs if other.step is not None}
            job.text = fill_in(job.step, results, job.prepared.tool)
            job.arguments = job.prepared.tool.bind(job.text)
        return job.prepared, job.arguments or {}

    async def _rest(self, job: Job) -> ToolResult:
        """More of a result, which a call of `read_result` asks for."""
        run = self._run
        return await read_rest(run.conversation, run.fetch, job.text, run.bounds, self._executor.most_at_once)

    async def _answer(self, job: Job, prepared: PreparedTool, arguments: dict[str, Any]) -> None:
        """Get the result of a call that is allowed: it is known already, or it is worked for."""
        ahead = self._run.ahead
        if ahead is not None and (begun := ahead.find(prepared.tool, arguments)) is not None:
            await self._take_begun(ahead, job, *begun)
            return
        if prepared.shares:
            cache, key = self._executor.place(prepared, arguments, self._run)
            if (found := _find(cache, key)) is not None:
                await self._take_over(job, found)
            else:
                job.missed = bool(prepared.ttl)
                await self._lead(job, prepared, arguments, cache, key)
            return
        if prepared.tool.read_only:
            behind = frozenset(other.call_id for other, _ in job.edges)
            first = self._firsts.setdefault((job.name, arguments_key(arguments), behind), job)
            if first is not job:
                await first.ended()
                await self._join(job, _result(first), first.started)
                return
        await self._work(job, prepared, arguments)

    async def _take_over(self, job: Job, found: Kept | Flight) -> None:
        """End with a result that is kept, or that is just being worked for."""
        if isinstance(found, Flight):
            await self._join(job, await self._ride(job, found), found.started)
        else:
            job.saved = found.took
            await self._finish(job, ToolResult(found.content), "cache", "cached")

    async def _take_begun(self, ahead: Prefetching, job: Job, begun: Begun, found: Kept | Flight) -> None:
        """End with the result of this very call, which was begun ahead; while that is at work it has a place."""
        ledger = self._run.ledger
        if isinstance(found, Kept):
            result = ToolResult(found.content)
        else:
            if not self._places.take():
                await self._place(job)
            try:
                ahead.make_way(begun.prepared.tool, begun.arguments, self._places.free)
                self._tell_start(job, begun.prepared.tool, begun.arguments)
                result = await self._ride(job, found)
            finally:
                self._places.give()
        job.saved = 0 if result.failed else begun.won
        ledger.add("tool", begun.start, begun.end or ledger.clock(), job.lane, job.name, "prefetched")
        kind: Kind = "cache" if isinstance(found, Kept) else "wait"
        await self._finish(job, result, kind, "fallback" if result.fallback else "prefetched")

    async def _join(self, job: Job, result: ToolResult, started: int) -> None:
        """End with the result of an identical call that began then."""
        if not result.failed:
            job.saved = self._run.ledger.clock() - started
        await self._finish(job, result, "wait", "joined")

    async def _ride(self, job: Job, flight: Flight) -> ToolResult:
        """The flight's result, or a failure when the run has no more time for it."""
        now = self._run.ledger.clock()
        left = self._deadline(job, now).for_tools_ns(now)
        if left is None:
            return await flight.wait()
        try:
            with Limit(left / NS_PER_S, asyncio.get_running_loop()):
                return await flight.wait()
        except TimeoutError:
            return failed(f"{job.name} did not finish within {left / NS_PER_S:g} s.", retryable=True)

    async def _work(self, job: Job, prepared: PreparedTool, arguments: dict[str, Any]) -> None:
        """Run the tool once there is a free place for it."""
        if not self._places.take():
            await self._place(job)
        try:
            execution = self._start(job, prepared, arguments, self._run.deadline)
            if execution is None:
                return
            if job.until:
                execution.deadline = self._deadline(job, job.started)
            if prepared.invalidates:
                result = await self._write(execution, prepared.tool, arguments)
            else:
                result = await (execution.attempt() if prepared.once else execution.run())
        except BaseException:
            self._stopped(job)
            raise
        finally:
            self._places.give()
        outcome = "fallback" if result.fallback else "ok"
        if len(result.content) > prepared.short:
            await self._finish(job, result, "tool", outcome)
        else:
            self._end(job, result, "tool", outcome)

    async def _lead(
        self, job: Job, prepared: PreparedTool, arguments: dict[str, Any], cache: ResultCache, key: Key
    ) -> None:
        """Run the tool once there is a free place for it, for whoever asks for the same meanwhile."""
        if not self._places.take():
            await self._place(job)
            if (found := _find(cache, key)) is not None:
                self._places.give()
                return await self._take_over(job, found)
        try:
            execution = self._start(job, prepared, arguments, FOREVER)
            if execution is None:
                return None
            reads = tuple(each.text for each in resources(prepared.tool.reads, arguments))
            result = await self._ride(job, cache.fly(key, execution.run(), prepared.ttl, reads))
        except BaseException:
            self._stopped(job)
            raise
        finally:
            self._places.give()
        return await self._finish(job, result, "tool", "fallback" if result.fallback else "ok")

    def _deadline(self, job: Job, now: int) -> Deadline:
        """The run's, or the earlier one at which an optional call is given up."""
        deadline = self._run.deadline
        return deadline.before_answer(now, job.until - now) if job.until else deadline

    def _left_out(self, job: Job) -> bool:
        """Whether this call of an optional tool is not made, to save time; if it is, how long it may take."""
        less = None if self._run.watch is None else self._run.watch.degrading
        if less is None or (left := less.time_for(job.name)) is None:
            return False
        job.until = job.started + left
        return left == 0

    async def _place(self, job: Job) -> None:
        await self._places.wait()
        self._waited(job, "for a free place")

    def _start(
        self, job: Job, prepared: PreparedTool, arguments: dict[str, Any], deadline: Deadline
    ) -> Execution | None:
        """Tell that the tool starts; None if there is no time left for it."""
        run = self._run
        job.started = start = run.ledger.clock()
        run.ledger.add("overhead", job.since, start, job.lane)
        if run.deadline.answer_now(start):
            self._end(job, failed(f"{job.name} was not started: there is only time left to answer."), "guard", "error")
            return None
        if prepared.tool.optional and self._left_out(job):
            self._end(job, failed(_LEFT_OUT.format(job.name)), "guard", "skipped")
            return None
        if run.ahead is not None:  # nothing that the model has not asked for is in the way of a call that it has made
            run.ahead.make_way(prepared.tool, arguments, self._places.free)
        self._tell_start(job, prepared.tool, arguments)
        return Execution(prepared, arguments, run.caller, job.call_id, run.ledger.clock, run.emit, deadline)

    def _tell_start(self, job: Job, tool: Tool, arguments: dict[str, Any]) -> None:
        status = tool.status_text(arguments)
        if status:
            self._run.ledger.shown(self._run.ledger.clock())
        self._run.emit([ToolStarted(job.call_id, job.name, job.text, status)])

    async def _write(self, execution: Execution, tool: Tool, arguments: dict[str, Any]) -> ToolResult:
        """Run a tool that makes stale what others have read, at whatever moment, and however it ends."""
        execution.afterwards = partial(self._executor.invalidate, tool, arguments)
        try:
            return await execution.run()
        finally:
            self._executor.invalidate(tool, arguments)

    def _waited(self, job: Job, note: str) -> None:
        now = self._run.ledger.clock()
        self._run.ledger.add("wait", job.since, now, job.lane, job.name, note)
        job.waited += now - job.since
        job.since = now

    def _stopped(self, job: Job) -> None:
        """A tool at work was stopped, with its run or with a reply that turned out unsafe."""
        if job.outcome:
            return
        start, now = job.started or job.since, self._run.ledger.clock()
        job.outcome = "discarded" if job.early else "cancelled"
        self._add("tool", start, now, job)
        self._run.emit([ToolFinished(job.call_id, job.name, "", job.outcome, ms(now - start))])
        try:
            self._gate.outcome(job, now - start)
        except AuditError as error:  # that it was stopped must not be lost
            _log.error("%s", error)

    async def _finish(self, job: Job, full: ToolResult, kind: Kind, outcome: str) -> None:
        """End with as much of this result as the model is to read; what the tool did is on record before."""
        took = self._account(job, full, kind, outcome)
        result = full
        try:
            if self._run.journal is not None:
                await self._gate.record(job, full)
            result = await self._shaped(job, full)
        finally:
            self._tell(job, result, took)

    async def _shaped(self, job: Job, full: ToolResult) -> ToolResult:
        how = "stopped"
        try:
            result, how = await self._executor.shaper.shape(job, full, self._run)
            return result
        finally:
            self.last_end = self._run.ledger.clock()
            self._run.ledger.add("context", job.since, self.last_end, job.lane, job.name, how)

    def _end(self, job: Job, result: ToolResult, kind: Kind, outcome: str) -> None:
        """The one end of every job whose result the model reads as it is."""
        self._tell(job, result, self._account(job, result, kind, outcome))

    def _account(self, job: Job, result: ToolResult, kind: Kind, outcome: str) -> int:
        """Put what came of a job into the ledger and the audit log; how long it took (ns)."""
        start, now = job.started or job.since, self._run.ledger.clock()
        job.outcome = "error" if result.failed and outcome in _GIVEN else outcome
        self._add(kind, start, now, job)
        if job.until and now >= job.until and job.outcome in ("error", "fallback") and self._run.watch is not None:
            self._run.watch.stopped(job.name)
        job.since = now
        if self._executor.audit is not None:
            self._gate.outcome(job, now - start)
        return now - start

    def _tell(self, job: Job, result: ToolResult, took: int) -> None:
        """The job has its result, which the model will read, and so may everybody."""
        job.result = result
        self._run.emit([ToolFinished(job.call_id, job.name, result.content, job.outcome, ms(took))])
        if self.ended is not None:
            self.ended(job.name, took)

    def _add(self, kind: Kind, start: int, end: int, job: Job) -> None:
        note = "" if job.outcome == "ok" else "failed" if job.outcome == "error" and kind == "tool" else job.outcome
        self._run.ledger.add(kind, start, end, job.lane, job.name, note)
        if end > self.last_end:
            self.last_end = end


def _result(job: Job) -> ToolResult:
    return job.result or failed(f"{job.name} has no result.")


def _find(cache: ResultCache, key: Key) -> Kept | Flight | None:
    return cache.get(key) or cache.flight(key)
