"""The calls of one reply: begun while it is written where that is safe, then ordered, run and put together."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from hotloop.errors import ArgumentsError
from hotloop.limit import stop
from hotloop.models.assembler import CallAssembler
from hotloop.models.reply import Call
from hotloop.tools.course import Course
from hotloop.tools.graph import Node, conflicts, order, resources
from hotloop.tools.job import Job, Run
from hotloop.tools.plan.plan import PLAN, Step, mismatch, plan_result, read_plan, read_step
from hotloop.tools.plan.references import value_of
from hotloop.tools.plan.scanner import StepScanner
from hotloop.tools.result import ToolResult, failed
from hotloop.trace.ledger import CallFacts
from hotloop.units import NS_PER_MS

if TYPE_CHECKING:
    from hotloop.tools.approvals.store import PendingCall
    from hotloop.tools.executor import Executor

_BURST = NS_PER_MS
_CIRCLE = "It was not run: it would have to come after a call that takes its result. Make these calls one by one."


class _Group(msgspec.Struct, eq=False):
    """One call of the reply: a job, or the jobs of a plan's steps, of which `read` fragments were scanned."""

    call_id: str
    jobs: list[Job] = []
    fault: str = ""
    scanner: StepScanner | None = None
    read: int = 0


class Batch(msgspec.Struct, eq=False):
    """The calls of one reply: heard while it is written, then complete, then run. `discarded` began in vain."""

    executor: Executor
    context: Run
    course: Course
    groups: dict[int, _Group] = {}  # those that were heard, by the slot of their call
    answers: list[_Group] = []  # one for each call of the complete reply
    jobs: list[Job] = []  # in the order in which the model wrote them
    sealed: int = 0
    heard_at: int = 0
    since: int = 0
    again: bool = False  # an earlier process heard this reply
    discarded: int = 0

    @property
    def ids(self) -> list[str]:
        """The ids of the calls."""
        return [group.call_id for group in self.answers]

    @property
    def pending(self) -> list[PendingCall]:
        """The calls that a person must decide about."""
        return [job.pending for job in self.jobs if job.pending is not None]

    def heard(self, calls: CallAssembler) -> None:
        """The model goes on writing calls: begin those that are complete and may run before the reply is."""
        self.since = self.context.ledger.clock()
        self.heard_at = self.heard_at or self.since
        for call in calls.sealed[self.sealed :]:
            self.sealed += 1
            if call.slot not in self.groups and call.slot == len(self.groups):
                group = self.groups[call.slot] = self._open(call)
                self._begin_early(group.jobs)
        if self.executor.policy.plan and (writing := calls.writing(PLAN)) is not None:
            self._scan(*writing)

    async def discard(self) -> None:
        """The reply is not to be trusted: stop what began early, and forget it."""
        begun = [job for job in self.jobs if job.early]
        self.discarded += len(begun)
        await stop([job.task for job in begun if job.task is not None])
        self.groups, self.jobs = {}, []
        self.sealed = self.heard_at = 0

    def complete(
        self, calls: Sequence[Call], ids: Sequence[str] = (), known: Mapping[str, ToolResult] | None = None
    ) -> None:
        """The reply is complete, and these are its calls.

        Of calls that an earlier process had begun, `ids` are given, and `known` has the results by id.
        """
        self.since = self.context.ledger.at
        self.answers = [self._complete(call, *ids[place : place + 1]) for place, call in enumerate(calls)]
        self.again = bool(ids)
        if known:
            for job in self.jobs:
                job.result = known.get(job.call_id)

    async def run(self) -> list[ToolResult | None]:
        """The results of the calls, failed or not, in their order; None where a person must decide.

        Cancelled, it cancels what runs and raises when that has ended.
        """
        ledger = self.context.ledger
        jobs = self.jobs
        if len(jobs) > 1 and (self.executor.ordered or any(job.step is not None for job in jobs)):
            self._order()
        try:
            if len(jobs) == 1 and jobs[0].task is None and jobs[0].result is None:
                await self.course.take(jobs[0])
            else:
                await self._take([job for job in jobs if job.task is None and job.result is None])
        finally:
            ledger.at = max(ledger.at, self.course.last_end)
        ledger.mark("overhead", "tools done")
        return [self._result(group) for group in self.answers]

    def results(self) -> dict[str, ToolResult]:
        """What came of every call and every step of a plan so far, by id."""
        return {job.call_id: job.result for job in self.jobs if job.result is not None}

    def facts(self, reply_end: int) -> list[CallFacts]:
        """What came of each call; `reply_end` is when the reply was complete."""
        return [
            CallFacts(
                job.call_id,
                job.name,
                job.outcome or ("pending" if job.result is None else "known"),
                max(reply_end - job.started, 0) if job.early and job.started else 0,
                job.waited_for,
                job.saved,
                job.missed,
            )
            for job in self.jobs
        ]

    def burst(self, reply_end: int) -> bool:
        """Whether the calls came all at once with the end of the reply, so that none could begin early."""
        return not self.again and (not self.heard_at or reply_end - self.heard_at < _BURST)

    def _open(self, call: Call, call_id: str = "") -> _Group:
        """The group of a call that is complete, its jobs not begun."""
        group = _Group(call_id or self.context.conversation.new_id())
        if call.name == PLAN and self.executor.policy.plan:
            self._read_plan(group, call.arguments)
        else:
            job = self._job(group.call_id, call.name, call.arguments)
            group.jobs.append(job)
            if job.ready is not None:
                self._bind(job)
        return group

    def _complete(self, call: Call, call_id: str = "") -> _Group:
        """The group of a call, now that the reply is complete; a plan whose steps were heard has the rest added."""
        group = self.groups.get(call.slot)
        if group is None:
            return self._open(call, call_id)
        if group.scanner is not None:
            self._read_plan(group, call.arguments)
        return group

    def _read_plan(self, group: _Group, text: str) -> None:
        """Add the steps of a plan that were not heard yet; one with a fault keeps only what was begun."""
        heard = [job.step for job in group.jobs]
        try:
            steps = read_plan(text, self.executor.ready)
            if steps[: len(heard)] != heard:
                raise ArgumentsError("The plan has its steps twice; write it again.")
            for step in steps[len(heard) :]:
                self._add_step(group, step)
        except ArgumentsError as error:
            group.fault = str(error)
            self.jobs = [job for job in self.jobs if job.early or job not in group.jobs]
            group.jobs = [job for job in group.jobs if job.early]
        by_id = {job.step.id: job for job in group.jobs if job.step is not None}
        for job in group.jobs:
            job.needs = _needs(job, by_id)

    def _job(self, call_id: str, name: str, text: str) -> Job:
        ready = self.executor.ready.get(name)
        job = Job(call_id, name, text, ready, len(self.jobs) + 1, self.since)
        if ready is None and name not in self.executor.own:
            job.fault = self.executor.unknown(name)
        self.jobs.append(job)
        return job

    def _add_step(self, group: _Group, step: Step) -> Job:
        text = msgspec.json.encode(step.arguments).decode()
        job = self._job(f"{group.call_id}.{step.id}", step.tool, text)
        job.step = step
        job.needs = _needs(job, {each.step.id: each for each in group.jobs if each.step is not None})
        group.jobs.append(job)
        if not step.refs:
            self._bind(job)
        elif job.ready is not None:
            job.fault = mismatch(step, job.ready.tool)
        return job

    def _bind(self, job: Job) -> None:
        try:
            job.arguments = job.ready.tool.bind(job.text) if job.ready is not None else None
        except ArgumentsError as error:
            job.fault = str(error)

    def _scan(self, slot: int, fragments: Sequence[str]) -> None:
        """Begin the steps that have become complete in a plan that is being written."""
        group = self.groups.get(slot)
        if group is None:
            if slot != len(self.groups):
                return
            group = self.groups[slot] = _Group(self.context.conversation.new_id())
            group.scanner = StepScanner()
        if group.scanner is None or group.fault:
            return
        for fragment in fragments[group.read :]:
            group.read += 1
            for text in group.scanner.feed(fragment):
                try:
                    step = read_step(text, self.executor.ready)
                except ArgumentsError as error:
                    group.fault = str(error)
                    return
                self._begin_early([self._add_step(group, step)])

    def _begin_early(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            if self._is_safe_early(job):
                self.course.expect(crowded=True, repeated=True)
                job.early = True
                job.edges = [(other, "") for other in job.needs]
                job.task = asyncio.create_task(self.course.take(job))

    def _is_safe_early(self, job: Job) -> bool:
        """A read-only call that depends on nothing which is still to come, and on nothing that changes anything."""
        if job.ready is None or job.fault:
            return False
        tool = job.ready.tool
        if not tool.read_only or tool.after or tool.sequential or tool.approval != "never":
            return False
        if job.step is not None and not (_is_linked(job) and all(other.early for other in job.needs)):
            return False
        if not self.executor.ordered:
            return True
        mine = _node(job)
        return not any(conflicts(_node(other), mine) for other in self.jobs[: job.lane - 1] if not other.early)

    def _order(self) -> None:
        """Let every job that has not begun wait for what must come first."""
        places = {job: place for place, job in enumerate(self.jobs)}
        nodes = [_node(job, tuple(places[other] for other in job.needs)) for job in self.jobs]
        for job, edges in zip(self.jobs, order(nodes), strict=True):
            if job.task is None:
                if edges is None:
                    job.fault = _CIRCLE
                else:
                    job.edges = [(self.jobs[edge.place], edge.why) for edge in edges]

    async def _take(self, todo: list[Job]) -> None:
        """Take these jobs, the first in this task, to their ends; what began early too."""
        begun = [job.task for job in self.jobs if job.task is not None]
        if (count := len(todo) + len(begun)) > 1:
            names = {job.name for job in self.jobs}
            self.course.expect(crowded=count > self.executor.policy.max_parallel, repeated=len(names) < len(self.jobs))
        tasks = [*begun, *[asyncio.create_task(self.course.take(job)) for job in todo[1:]]]
        try:
            if todo:
                await self.course.take(todo[0])
            for task in tasks:
                await task
        except BaseException:
            await stop(tasks)
            raise

    def _result(self, group: _Group) -> ToolResult | None:
        """What the model reads of a call; None if a person must decide first."""
        if len(group.jobs) == 1 and group.jobs[0].step is None:
            return group.jobs[0].result
        if not all(job.result is not None for job in group.jobs):
            return None
        steps = [job.step for job in group.jobs if job.step is not None]
        results = {job.step.id: job.result for job in group.jobs if job.step is not None and job.result is not None}
        content = plan_result(steps, {name: (each.content, bool(each.failed)) for name, each in results.items()})
        if group.fault:
            return _faulty_plan(group.fault, content if steps else "")
        return ToolResult(content, "; ".join(f"{name}: {each.failed}" for name, each in results.items() if each.failed))


def _node(job: Job, needs: tuple[int, ...] = ()) -> Node:
    """A job as its order sees it; of a step without its arguments only how its resources' names begin."""
    if job.ready is None or job.fault:
        return Node(job.name, needs=needs)
    tool, arguments = job.ready.tool, job.arguments
    reads, writes = resources(tool.reads, arguments), resources(tool.writes, arguments)
    return Node(job.name, tool.after, tool.sequential, reads, writes, needs)


def _needs(job: Job, by_id: Mapping[str, Job]) -> list[Job]:
    """The jobs whose results a step takes, as far as they are known yet."""
    wanted = dict.fromkeys(reference.step for reference in job.step.refs) if job.step is not None else {}
    return [by_id[step_id] for step_id in wanted if step_id in by_id]


def _is_linked(job: Job) -> bool:
    """Whether all that a step refers to is known."""
    return job.step is None or len(job.needs) == len({reference.step for reference in job.step.refs})


def _faulty_plan(fault: str, known: str) -> ToolResult:
    """What the model is told of a plan that cannot be: why, and what came of the steps that had begun."""
    if not known:
        return failed(fault)
    told = {"error": fault, "known": value_of(known)}
    return ToolResult(msgspec.json.encode(told).decode(), fault)
