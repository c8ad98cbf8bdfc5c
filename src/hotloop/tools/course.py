"""The course of one call: it waits for what it must, is guarded, found in the cache or worked for, and told.

Everything that happens to it gets an owner in the ledger and an event for whoever streams the run.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from hotloop.budget import Deadline
from hotloop.errors import ArgumentsError, ToolError, ToolRefused
from hotloop.events import ApprovalNeeded, ToolFinished, ToolStarted
from hotloop.limit import Limit
from hotloop.tools import guard
from hotloop.tools.approvals.permits import Permits
from hotloop.tools.cache import Flight, Key, ResultCache
from hotloop.tools.cutting.cut import cut
from hotloop.tools.cutting.rest import READ_RESULT, read_rest
from hotloop.tools.execution import FOREVER, Execution, Ready
from hotloop.tools.graph import resources
from hotloop.tools.job import Job, Run
from hotloop.tools.plan.plan import Step
from hotloop.tools.plan.references import resolve, value_of
from hotloop.tools.result import ToolResult, failed
from hotloop.tools.tool import Tool, arguments_key, canonical
from hotloop.trace.ledger import Kind
from hotloop.units import NS_PER_S, ms

if TYPE_CHECKING:
    from hotloop.tools.approvals.store import PendingCall
    from hotloop.tools.executor import Executor


class Course(msgspec.Struct, eq=False):
    """Takes the jobs of one reply on their course. `last_end` is when the last of them ended."""

    executor: Executor
    context: Run
    places: asyncio.Semaphore | None = None
    firsts: dict[tuple[str, bytes], Job] | None = None
    last_end: int = 0

    def expect(self, *, crowded: bool, repeated: bool) -> None:
        """More calls come than there are places, or several of one tool."""
        if crowded and self.places is None:
            self.places = asyncio.Semaphore(self.executor.policy.max_parallel)
        if repeated and self.firsts is None:
            self.firsts = {}

    async def take(self, job: Job) -> None:
        """Take this job to its result, or to where a person must decide."""
        try:
            if job.edges and not await self._wait(job):
                return None
            if job.name == READ_RESULT and job.ready is None and not job.fault:
                rest = read_rest(self.context.conversation, job.text, self.executor.max_result)
                return self._end(job, rest, "cache", "error" if rest.failed else "ok")
            try:
                ready, arguments = self._bound(job)
                if self.executor.guarded and not await self._guard(job, ready.tool, arguments):
                    return None
                if (permits := self.context.permits) is not None and not ready.tool.read_only:
                    await permits.begin(job.call_id, job.name)
            except ToolError as error:
                return self._end(job, failed(str(error)), "guard", job.outcome or "error")
            if ready.shares or self.firsts is not None:
                await self._answer(job, ready, arguments)
            else:
                await self._work(job, ready, arguments, self.context.deadline)
            if permits is not None and job.result is not None and not job.early:
                await self._record(job, permits, job.result)
        finally:
            job.over = True
            if job.done is not None:
                job.done.set()

    async def _record(self, job: Job, permits: Permits, result: ToolResult) -> None:
        ledger = self.context.ledger
        since = ledger.clock()
        await permits.record(job.call_id, result)
        self.last_end = ledger.clock()
        ledger.add("approval", since, self.last_end, job.lane, job.name, "recorded")

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

    def _bound(self, job: Job) -> tuple[Ready, dict[str, Any]]:
        """The tool and its arguments; of a step with earlier results in their places. Raises ToolError."""
        if job.fault or job.ready is None:
            raise ToolError(job.fault)
        if job.arguments is None:
            assert job.step is not None  # any other call has its arguments from the start
            self._bind_step(job, job.step, job.ready.tool)
            assert job.arguments is not None
        return job.ready, job.arguments

    def _bind_step(self, job: Job, step: Step, tool: Tool) -> None:
        """Bind a step's arguments, with the results of others in their places.

        A text that looks like a number, as an order number may, is tried as a number first.
        """
        texts = {other.step.id: self._whole(other) for other in job.needs if other.step is not None}
        values = {name: text if isinstance(text, ToolError) else value_of(text) for name, text in texts.items()}
        job.text = msgspec.json.encode(resolve(step.arguments, values)).decode()
        try:
            job.arguments = tool.bind(job.text)
        except ArgumentsError:
            plain = {name: value if isinstance(value, dict | list) else texts[name] for name, value in values.items()}
            if plain == values:
                raise
            job.text = msgspec.json.encode(resolve(step.arguments, plain)).decode()
            job.arguments = tool.bind(job.text)

    def _whole(self, job: Job) -> str | ToolError:
        """A step's result for another step: all of it, even if the model reads only a part."""
        assert job.result is not None
        if job.result.failed:
            return ToolError(job.result.failed)
        return self.context.conversation.kept.get(job.call_id, job.result.content)

    async def _guard(self, job: Job, tool: Tool, arguments: dict[str, Any]) -> bool:
        """Whether the call may run now; raises ToolRefused if it never may."""
        permits, decision = self.context.permits, None
        try:
            guard.check(tool, arguments, self.context.caller.grants)
            if guard.needs_approval(tool, arguments) or (permits is not None and permits.asked(job.call_id)):
                call = self._as_pending(job)
                decision = permits.decision(call) if permits is not None else None
                if permits is None or decision is None:
                    return self._pause(job, call)
                if not decision.approved:
                    because = f": {decision.reason}" if decision.reason else ""
                    raise ToolRefused(f"A person refused this call of {job.name}{because}. Do not try it again.")
                await permits.claim(call)
        except ToolRefused as error:
            job.outcome = "refused"
            self._audit(job, "refused", str(error), decision.by if decision is not None else "")
            raise
        self._audit(job, "approved" if decision else "allowed", by=decision.by if decision is not None else "")
        now = self.context.ledger.clock()
        self.context.ledger.add("approval" if decision else "guard", job.since, now, job.lane, job.name)
        job.since = now
        return True

    def _as_pending(self, job: Job) -> PendingCall:
        from hotloop.tools.approvals.store import PendingCall, digest_of

        text = canonical(job.text)
        return PendingCall(job.call_id, job.name, text, digest_of(self.context.caller.run, job.call_id, job.name, text))

    def _pause(self, job: Job, call: PendingCall) -> bool:
        """Nobody has decided yet."""
        job.pending = call
        self._audit(job, "pending")
        self.context.emit([ApprovalNeeded(job.call_id, job.name, call.arguments, call.digest)])
        return False

    async def _answer(self, job: Job, ready: Ready, arguments: dict[str, Any]) -> None:
        """Get the result of a call that is allowed: it is known already, or it is worked for."""
        if ready.shares:
            return await self._shared(job, ready, arguments)
        if self.firsts is not None and ready.tool.read_only and not job.edges:
            first = self.firsts.setdefault((job.name, arguments_key(arguments)), job)
            if first is not job:
                return await self._join(job, first)
        await self._work(job, ready, arguments, self.context.deadline)
        return None

    async def _join(self, job: Job, first: Job) -> None:
        """Take the result of an identical call of the same reply."""
        await first.ended()
        assert first.result is not None  # it waits for nobody, so it has one
        job.saved = self.context.ledger.clock() - first.started
        self._end(job, first.result, "wait", "error" if first.result.failed else "joined")

    async def _shared(self, job: Job, ready: Ready, arguments: dict[str, Any]) -> None:
        """The result from the cache, of an identical call in flight anywhere, or of a flight that others may join."""
        cache, key = self.executor.place(ready, arguments, self.context)
        if ready.ttl and (kept := cache.get(key)) is not None:
            job.saved = kept.took
            self._end(job, ToolResult(kept.content), "cache", "cached")
        elif (flight := cache.flight(key)) is not None:
            result = await self._ride(job, flight)
            job.saved = self.context.ledger.clock() - flight.started
            self._end(job, result, "wait", "error" if result.failed else "joined")
        else:
            job.missed = bool(ready.ttl)
            await self._lead(job, ready, arguments, cache, key)

    async def _lead(self, job: Job, ready: Ready, arguments: dict[str, Any], cache: ResultCache, key: Key) -> None:
        """Work for everybody who asks for the same meanwhile."""
        reads = tuple(each.text for each in resources(ready.tool.reads, arguments))
        flight = cache.fly(key, self._work(job, ready, arguments, FOREVER), ready.ttl, reads)
        try:
            result = await self._ride(job, flight)
        except BaseException:
            self._stopped(job)
            raise
        finally:
            job.left = True  # the flight may go on for others, but no longer for this run
        if job.result is None:
            self._end(job, result, "tool", "error")

    async def _ride(self, job: Job, flight: Flight) -> ToolResult:
        """The flight's result, or a failure when the run has no more time for it."""
        left = self.context.deadline.for_tools_ns(self.context.ledger.clock())
        if left is None:
            return await flight.wait()
        try:
            with Limit(left / NS_PER_S, asyncio.get_running_loop()):
                return await flight.wait()
        except TimeoutError:
            return failed(f"{job.name} did not finish within {left / NS_PER_S:g} s.", retryable=True)

    async def _work(self, job: Job, ready: Ready, arguments: dict[str, Any], deadline: Deadline) -> ToolResult:
        """Run the tool once there is a free place for it."""
        context, ledger, places = self.context, self.context.ledger, self.places
        if places is not None:
            if places.locked():
                await places.acquire()
                self._waited(job, "for a free place")
            else:
                await places.acquire()
        try:
            job.started = start = ledger.clock()
            ledger.add("overhead", job.since, start, job.lane)
            if deadline.answer_now(start):
                result = failed(f"{job.name} was not started: there is only time left to answer.")
                self._end(job, result, "guard", "error")
                return result
            context.emit([ToolStarted(job.call_id, job.name, job.text, ready.tool.status_text(arguments))])
            run_id = context.caller.run
            execution = Execution(ready, arguments, run_id, job.call_id, ledger.clock, context.emit, deadline)
            result = await (execution.attempt() if ready.once else execution.run())
        except BaseException:
            self._stopped(job)
            raise
        finally:
            if places is not None:
                places.release()
            if ready.stales:
                self.executor.invalidate(ready.tool, arguments)
        if not job.left:
            self._end(job, result, "tool", "error" if result.failed else "fallback" if result.fallback else "ok")
        return result

    def _waited(self, job: Job, note: str) -> None:
        now = self.context.ledger.clock()
        self.context.ledger.add("wait", job.since, now, job.lane, job.name, note)
        job.since = now

    def _stopped(self, job: Job) -> None:
        """A tool at work was stopped, with its run or with a reply that turned out unsafe."""
        if job.left or job.outcome:
            return
        start, now = job.started or job.since, self.context.ledger.clock()
        job.outcome = "discarded" if job.early else "cancelled"
        self._add("tool", start, now, job)
        self.context.emit([ToolFinished(job.call_id, job.name, "", job.outcome, ms(now - start))])
        self._audit_outcome(job, now - start)

    def _end(self, job: Job, full: ToolResult, kind: Kind, outcome: str) -> None:
        """The one end of every job that has a result: cut to its bound, in the ledger, told."""
        start, now = job.started or job.since, self.context.ledger.clock()
        limit = job.ready.max_result if job.ready is not None else self.executor.max_result
        job.result = full if len(full.content) <= limit else self._cut(job, full, limit)
        job.outcome = outcome
        self._add(kind, start, now, job)
        self.context.emit([ToolFinished(job.call_id, job.name, job.result.content, outcome, ms(now - start))])
        if self.executor.audit is not None:
            self._audit_outcome(job, now - start)

    def _cut(self, job: Job, full: ToolResult, limit: int) -> ToolResult:
        """As much of the result as the model is to read; all of it is kept."""
        self.context.conversation.keep(job.call_id, full.content)
        rest = self.executor.rest.format(job.call_id)
        return msgspec.structs.replace(full, content=cut(full.content, limit, rest))

    def _add(self, kind: Kind, start: int, end: int, job: Job) -> None:
        note = "" if job.outcome == "ok" else "failed" if job.outcome == "error" and kind == "tool" else job.outcome
        self.context.ledger.add(kind, start, end, job.lane, job.name, note)
        if end > self.last_end:
            self.last_end = end

    def _audit_outcome(self, job: Job, took: int) -> None:
        if self.executor.audit is not None and job.arguments is not None:
            self.executor.audit.outcome(self.context.caller, job.name, job.call_id, job.outcome, ms(took))

    def _audit(self, job: Job, decision: str, reason: str = "", by: str = "") -> None:
        audit = self.executor.audit
        if audit is not None and job.ready is not None:
            secrets, arguments = job.ready.tool.secrets, job.arguments or {}
            audit.decision(self.context.caller, job.name, job.call_id, arguments, secrets, decision, reason, by)
