"""The calls of one reply: begun while it is written where that is safe, then ordered, run and put together."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from hotloop.errors import ArgumentsError
from hotloop.limit import stop
from hotloop.models.reply import Call
from hotloop.models.wire.assembler import CallAssembler
from hotloop.tools.plan.plan import PLAN, Step, mismatch, plan_result
from hotloop.tools.plan.reading import PlanReader
from hotloop.tools.plan.references import value_of
from hotloop.tools.running.callrunner import CallRunner
from hotloop.tools.running.graph import Node, conflicts, order, resources
from hotloop.tools.running.job import Job, RunContext
from hotloop.tools.running.result import ToolResult, failed
from hotloop.trace.ledger import CallFacts, Spoken
from hotloop.units import NS_PER_MS

if TYPE_CHECKING:
    from hotloop.tools.approvals.store import PendingCall
    from hotloop.tools.defining.tool import Tool
    from hotloop.tools.running.executor import Executor

_BURST = NS_PER_MS
_GIVEN = "The answer was given."
_CIRCLE = "It was not run: it would have to come after a call that takes its result. Make these calls one by one."


class _Group(msgspec.Struct, eq=False, gc=False):
    """One call of the reply: its job, or the jobs of a `plan`."""

    call_id: str
    jobs: list[Job] = []
    plan: PlanReader | None = None


class ReplyCalls(msgspec.Struct, eq=False):
    """The calls of one reply: heard while it is written, then complete, then run. `discarded` began in vain."""

    executor: Executor
    context: RunContext
    runner: CallRunner
    heard_groups: list[_Group] = []
    groups: list[_Group] = []  # one for each call of the complete reply
    ids: list[str] = []  # of those calls
    jobs: list[Job] = []  # in the order in which the model wrote them
    lanes: int = 0  # that were given to jobs
    sealed: int = 0  # of the calls that were heard
    heard_at: int = 0
    since: int = 0
    resumed: bool = False  # an earlier process heard this reply
    discarded: int = 0

    @property
    def pending(self) -> list[PendingCall]:
        """The calls that a person must decide about."""
        return [job.pending for job in self.jobs if job.pending is not None]

    def heard(self, calls: CallAssembler) -> None:
        """The model goes on writing calls: begin those that are complete and may run before the reply is.

        Called where the reply arrives, so it must not block. Calls are heard in order; one that is sealed before an
        earlier one is, and all after it, wait for the end of the reply.
        """
        plan = calls.writing(PLAN) if self.executor.policy.plan else None
        if self.heard_at and len(calls.sealed) == self.sealed and plan is None:
            return  # another fragment of a call that is not complete
        self.since = self.context.ledger.clock()
        self.heard_at = self.heard_at or self.since
        for call in calls.sealed[self.sealed :]:
            if call.slot != self.sealed:
                return
            self.sealed += 1
            if call.slot < len(self.heard_groups):  # a plan that was scanned so far
                self._begin_early(self._complete_plan(self.heard_groups[call.slot], call.arguments))
            else:
                self.heard_groups.append(self._open(call))
                self._begin_early(self.heard_groups[-1].jobs)
        if plan is not None:
            self._scan(*plan)

    async def discard(self) -> None:
        """The reply is not to be trusted: stop what began early, and forget it."""
        heard = self._heard_jobs()
        begun = [job.task for job in heard if job.task is not None]
        self.discarded += len(begun)
        self.heard_groups, self.groups, self.ids, self.jobs = [], [], [], []
        self.sealed = self.heard_at = 0
        self.runner = CallRunner(self.executor, self.context)
        await stop(begun)
        for job in heard:
            self.context.conversation.kept.pop(job.call_id, None)

    def complete(
        self, calls: Sequence[Call], ids: Sequence[str] = (), known: Mapping[str, ToolResult] | None = None
    ) -> None:
        """The reply is complete, and these are its calls.

        Of calls that an earlier process had begun, `ids` are given, and `known` has the results by id.
        """
        self.since = self.context.ledger.at
        self.resumed = bool(ids)
        for place, call in enumerate(calls):
            group = self._complete(call, ids[place] if ids else "")
            self.groups.append(group)
            self.ids.append(group.call_id)
            self.jobs += group.jobs
        if self.heard_groups:
            for job in self.jobs:
                job.since = job.since if job.early else self.since
        if known:
            for job in self.jobs:
                job.result = known.get(job.call_id)

    async def run(self) -> list[ToolResult | None]:
        """The results of the calls, failed or not, in their order; None where a person must decide.

        Cancelled, it cancels what runs and raises when that has ended.
        """
        ledger, jobs = self.context.ledger, self.jobs
        if len(jobs) > 1 and (self.executor.ordered or self.executor.policy.plan):
            _order(jobs)
        try:
            if self.resumed:
                await self.runner.shape_known(jobs)
            await self._take(jobs)
        finally:
            ledger.at = max(ledger.at, self.runner.last_end)
        ledger.mark("overhead", "tools done")
        return [_result(group) for group in self.groups]

    def results(self) -> dict[str, ToolResult]:
        """What came of every call and every step of a plan so far, by id."""
        return {job.call_id: job.result for job in self.jobs if job.result is not None}

    def first_results(self) -> list[ToolResult]:
        """The results that are there, up to the first call that has none yet."""
        found: list[ToolResult] = []
        for group in self.groups:
            if (result := _result(group)) is None:
                break
            found.append(result)
        return found

    def running(self) -> list[tuple[str, int]]:
        """The calls that have no result yet, each with when it began (ns), 0 for not yet."""
        return [(job.name, job.started) for job in self.jobs if job.result is None]

    def facts(self, reply_end: int) -> list[CallFacts]:
        """What came of each call; `reply_end` is when the reply was complete."""
        return [
            CallFacts(
                job.call_id,
                job.name,
                job.outcome or ("pending" if job.result is None else "known"),
                max(reply_end - job.started, 0) if job.early and job.started else 0,
                job.waited_for,
                job.waited,
                job.saved,
                job.missed,
                reply_end - job.sealed,
                tuple([other.call_id for other, _ in job.edges]) if job.edges else (),
                job.lane,
            )
            for job in self.jobs
        ]

    def spoken(self) -> list[Spoken]:
        """What was said with each call that has its result."""
        return [
            Spoken(job.call_id, job.text if job.arguments is None else job.arguments, job.result.content)
            for job in self.jobs
            if job.result is not None
        ]

    def burst(self, reply_end: int) -> bool:
        """Whether the calls came all at once with the end of the reply, so that none could begin early."""
        return not self.resumed and (not self.heard_at or reply_end - self.heard_at < _BURST)

    def _heard_jobs(self) -> list[Job]:
        return [job for group in self.heard_groups for job in group.jobs]

    def _complete(self, call: Call, call_id: str) -> _Group:
        """The group of a call, now that the reply is complete."""
        if call.slot >= len(self.heard_groups) or call_id:
            return self._open(call, call_id)
        group = self.heard_groups[call.slot]
        if group.plan is not None and call.slot >= self.sealed:
            self._complete_plan(group, call.arguments)
        return group

    def _open(self, call: Call, call_id: str = "") -> _Group:
        """The group of a call whose arguments are complete, its jobs not begun."""
        group = _Group(call_id or self.context.conversation.new_id())
        if call.name == PLAN and self.executor.policy.plan:
            group.plan = PlanReader(self.executor.prepared)
            self._complete_plan(group, call.arguments)
            return group
        job = self._job(group.call_id, call.name, call.arguments)
        group.jobs.append(job)
        if job.prepared is not None:
            _bind(job)
        elif self.executor.answer is not None and call.name == self.executor.answer.name:
            _end_with_answer(job, self.executor.answer)
        elif call.name not in self.executor.built_in:
            job.fault = self.executor.unknown(call.name)
        return group

    def _job(self, call_id: str, name: str, text: str) -> Job:
        self.lanes += 1
        return Job(call_id, name, text, self.executor.prepared.get(name), self.lanes, self.since, self.since)

    def _scan(self, slot: int, fragments: Sequence[str]) -> None:
        """Begin the steps that have become complete in a plan that is being written."""
        if slot != self.sealed:
            return
        if slot == len(self.heard_groups):
            group = _Group(self.context.conversation.new_id(), plan=PlanReader(self.executor.prepared))
            self.heard_groups.append(group)
        group = self.heard_groups[slot]
        if group.plan is not None:
            self._begin_early(self._add_steps(group, group.plan.feed(fragments)))

    def _complete_plan(self, group: _Group, arguments: str) -> list[Job]:
        """The jobs of a plan that were not known yet; one that cannot be keeps only what was begun."""
        assert group.plan is not None
        new = self._add_steps(group, group.plan.complete(arguments))
        if group.plan.fault:
            group.jobs = [job for job in group.jobs if job.early]
        by_id = {job.step.id: job for job in group.jobs if job.step is not None}
        for job in group.jobs:
            job.needs = _needs(job, by_id)
        return new

    def _add_steps(self, group: _Group, steps: Sequence[Step]) -> list[Job]:
        new = []
        for step in steps:
            text = msgspec.json.encode(step.arguments).decode()
            job = self._job(f"{group.call_id}.{step.id}", step.tool, text)
            job.step = step
            job.needs = _needs(job, {each.step.id: each for each in group.jobs if each.step is not None})
            if not step.refs:
                _bind(job)
            elif job.prepared is not None:
                job.fault = mismatch(step, job.prepared.tool)
            group.jobs.append(job)
            new.append(job)
        return new

    def _begin_early(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            if self._is_safe_early(job):
                self.runner.several = True
                job.early = True
                job.edges = [(other, "") for other in job.needs]
                job.task = asyncio.create_task(self.runner.take(job))

    def _is_safe_early(self, job: Job) -> bool:
        """A read-only call that depends on nothing which is still to come, and on nothing that changes anything."""
        if job.prepared is None or job.fault:
            return False
        tool = job.prepared.tool
        if not tool.read_only or tool.after or tool.sequential or tool.approval != "never":
            return False
        if job.step is not None:
            wanted = {reference.step for reference in job.step.refs}
            if len(job.needs) < len(wanted) or not all(other.early for other in job.needs):
                return False
        if not self.executor.ordered:
            return True
        mine = _node(job)
        before = (other for other in self._heard_jobs() if other.lane < job.lane and not other.early)
        return not any(conflicts(_node(other), mine) for other in before)

    async def _take(self, jobs: Sequence[Job]) -> None:
        """Take the jobs to their ends, the only one in this task; cancelled, or if one breaks, all stop at once."""
        todo = [job for job in jobs if job.task is None and job.result is None]
        if len(jobs) == len(todo) == 1:
            await self.runner.take(todo[0])
            return
        self.runner.several |= len({job.name for job in jobs}) < len(jobs)
        create_task, take = asyncio.get_running_loop().create_task, self.runner.take
        for job in todo:
            job.task = create_task(take(job))
        tasks = [job.task for job in jobs if job.task is not None]
        try:
            await self.runner.all_taken([job for job in jobs if job.task is not None])
            for task in tasks:
                if task.done():
                    task.result()
        except BaseException:
            await stop(tasks)
            raise


def _bind(job: Job) -> None:
    try:
        job.arguments = job.prepared.tool.bind(job.text) if job.prepared is not None else None
    except ArgumentsError as error:
        job.fault = str(error)


def _end_with_answer(job: Job, answer: Tool) -> None:
    """The final answer is no call to be run: it has its result as soon as it is there."""
    try:
        answer.bind(job.text)
    except ArgumentsError as error:
        job.result, job.outcome = failed(str(error)), "error"
    else:
        job.result, job.outcome = ToolResult(_GIVEN), "ok"
    job.over = True


def _order(jobs: Sequence[Job]) -> None:
    """Let every job that has not begun wait for what must come first."""
    places = {job: place for place, job in enumerate(jobs)}
    nodes = [_node(job, tuple(places[other] for other in job.needs)) for job in jobs]
    begun = [place for place, job in enumerate(jobs) if job.early]
    for job, edges in zip(jobs, order(nodes, begun), strict=True):
        if edges is None:
            job.fault = _CIRCLE
        elif not job.early:
            job.edges = [(jobs[edge.place], edge.why) for edge in edges]
            job.must = [jobs[edge.place] for edge in edges if edge.must]


def _node(job: Job, needs: tuple[int, ...] = ()) -> Node:
    """A job as its order sees it; of a step without its arguments only how its resources' names begin."""
    if job.prepared is None or job.fault:
        return Node(job.name, needs=needs)
    tool, arguments = job.prepared.tool, job.arguments
    reads, writes = resources(tool.reads, arguments), resources((*tool.writes, *tool.invalidates), arguments)
    return Node(job.name, tool.after, tool.sequential, reads, writes, needs)


def _needs(job: Job, by_id: Mapping[str, Job]) -> list[Job]:
    """The jobs whose results a step takes, as far as they are known yet."""
    wanted = dict.fromkeys(reference.step for reference in job.step.refs) if job.step is not None else {}
    return [by_id[step_id] for step_id in wanted if step_id in by_id]


def _result(group: _Group) -> ToolResult | None:
    """What the model reads of a call; None if a person must decide first."""
    if group.plan is None:
        return group.jobs[0].result
    if not all(job.result is not None for job in group.jobs):
        return None
    results = {job.step.id: job.result for job in group.jobs if job.step is not None and job.result is not None}
    steps = [job.step for job in group.jobs if job.step is not None]
    if group.plan.fault:
        return _faulty_plan(group.plan.fault, results)
    content = plan_result(steps, {name: (each.content, bool(each.failed)) for name, each in results.items()})
    return ToolResult(content, "; ".join(f"{name}: {each.failed}" for name, each in results.items() if each.failed))


def _faulty_plan(fault: str, known: Mapping[str, ToolResult]) -> ToolResult:
    """What the model is told of a plan that cannot be: why, and what came of the steps that had begun."""
    if not known:
        return failed(fault)
    told = {"error": fault, "known": {name: value_of(each.content) for name, each in known.items()}}
    return ToolResult(msgspec.json.encode(told).decode(), fault)
