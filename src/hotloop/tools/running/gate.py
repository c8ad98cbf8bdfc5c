"""Whether a call may run now, by its tool's rules and by what people decided, and what goes on record of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.errors import ToolRefused
from hotloop.events import ApprovalNeeded
from hotloop.tools.approvals.journal import BegunBefore
from hotloop.tools.defining.tool import Tool, canonical
from hotloop.tools.running import guard
from hotloop.tools.running.job import Job, RunContext
from hotloop.tools.running.result import ToolResult
from hotloop.units import ms

if TYPE_CHECKING:
    from hotloop.tools.approvals.store import Decision, PendingCall
    from hotloop.tools.running.executor import Executor


class Gate:
    """What the calls of one reply have to pass; `guarded` tells that there is anything to it."""

    __slots__ = ("_audit", "_run", "guarded")

    def __init__(self, executor: Executor, run: RunContext) -> None:
        self._audit = executor.audit
        self._run = run
        self.guarded = executor.guarded or run.journal is not None

    async def admit(self, job: Job, tool: Tool, arguments: dict[str, Any]) -> bool:
        """Whether the call may run now, and then that it begins; raises ToolRefused if it never may."""
        journal, decision = self._run.journal, None
        try:
            guard.check(tool, arguments, self._run.caller.grants)
            if guard.needs_approval(tool, arguments) or (journal is not None and journal.asked(job.call_id)):
                call = self._as_pending(job)
                decision = journal.decision(call) if journal is not None else None
                if decision is None:
                    self._pause(job, call)
                    return False
                _check_approved(job, decision)
            if journal is not None and (decision is not None or not tool.read_only):
                await journal.begin(job.call_id, job.name)
        except ToolRefused as error:
            job.outcome = "unknown" if isinstance(error, BegunBefore) else "refused"
            self._decided(job, job.outcome, str(error), decision)
            raise
        self._decided(job, "allowed" if decision is None else "approved", decision.reason if decision else "", decision)
        now = self._run.ledger.clock()
        self._run.ledger.add("guard" if decision is None else "approval", job.since, now, job.lane, job.name)
        job.since = now
        return True

    async def record(self, job: Job, result: ToolResult) -> None:
        """Keep what the tool gave for a process that goes on with the run; of an early call it can ask again."""
        journal, ledger = self._run.journal, self._run.ledger
        if journal is not None and not job.early:
            since = ledger.clock()
            await journal.record(job.call_id, result.unshaped())
            job.since = ledger.clock()
            ledger.add("approval", since, job.since, job.lane, job.name, "recorded")

    def outcome(self, job: Job, took: int) -> None:
        """What came of the call after so many nanoseconds, for the audit log."""
        if self._audit is not None and job.arguments is not None:
            self._audit.outcome(self._run.caller, job.name, job.call_id, job.outcome, ms(took))

    def _as_pending(self, job: Job) -> PendingCall:
        from hotloop.tools.approvals.store import PendingCall, digest_of

        text = canonical(job.text)
        return PendingCall(job.call_id, job.name, text, digest_of(self._run.caller.run, job.call_id, job.name, text))

    def _pause(self, job: Job, call: PendingCall) -> None:
        """Nobody has decided yet."""
        job.pending = call
        self._decided(job, "pending")
        self._run.emit([ApprovalNeeded(job.call_id, job.name, call.arguments, call.digest)])

    def _decided(self, job: Job, what: str, reason: str = "", decision: Decision | None = None) -> None:
        if self._audit is not None and job.prepared is not None:
            secrets, arguments = job.prepared.tool.secrets, job.arguments or {}
            by = decision.by if decision is not None else ""
            self._audit.decision(self._run.caller, job.name, job.call_id, arguments, secrets, what, reason, by)


def _check_approved(job: Job, decision: Decision) -> None:
    if not decision.approved:
        because = f": {decision.reason}" if decision.reason else ""
        raise ToolRefused(f"A person refused this call of {job.name}{because}. Do not try it again.")
