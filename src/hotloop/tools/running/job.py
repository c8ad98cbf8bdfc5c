"""One call on its way, from the moment it is sealed until it has a result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from hotloop.budget import Deadline
from hotloop.context.conversation import Conversation
from hotloop.context.settings import Task
from hotloop.models.transport import Emit
from hotloop.tools.approvals.journal import RunJournal
from hotloop.tools.plan.plan import Step
from hotloop.tools.running.caller import Caller
from hotloop.tools.running.execution import PreparedTool
from hotloop.tools.running.result import ToolResult
from hotloop.trace.ledger import Ledger

if TYPE_CHECKING:
    from hotloop.budget.watch import Watch
    from hotloop.context.compaction import Compactor
    from hotloop.tools.approvals.store import PendingCall
    from hotloop.tools.prefetch.prefetching import Prefetching


class RunContext(msgspec.Struct, frozen=True):
    """What calls have to know of the run that they belong to.

    `deadline` is that of this process: a run that goes on after a pause, and then has a `journal`, has a fresh one.
    `watch` holds it to its budget, None where nothing is done about that before its end.
    `prompt` is what the user asked; a `background` run lets others go first. `tasks` have instructions that the prompt
    may need, `aside` is said last in each request. `compactor` keeps the conversation within its limit, and where there
    is none `new_compactor` makes one when a service says that it is too long. `bounds` tell how many tokens the model
    reads at once of the results that it was shown a part of, by call id. `ahead` are calls begun before they are made.
    """

    ledger: Ledger
    emit: Emit
    deadline: Deadline
    caller: Caller
    conversation: Conversation
    journal: RunJournal | None = None
    prompt: str = ""
    background: bool = False
    watch: Watch | None = None
    tasks: Sequence[Task] = ()
    aside: str = ""
    compactor: Compactor | None = None
    new_compactor: Callable[[Conversation], Compactor] | None = None
    fetch: Callable[[str], Awaitable[str | None]] | None = None
    bounds: dict[str, int] = {}
    ahead: Prefetching | None = None


class Job(msgspec.Struct, eq=False):
    """One call of a reply, or one `step` of a plan; `text` are its arguments as the model wrote them.

    Before it runs, `fault` says why it never can, `needs` are the steps whose results it takes, `edges` all jobs that
    it waits for, and why, `must` those of them that have to succeed. When it is `over`, it has a `result`,
    or none because a person must decide, about it (`pending`) or about a job that it waits for. `early` jobs began
    before the reply was complete; those that `missed` were not in the cache. Times are nanoseconds: its arguments were
    complete at `sealed`, what it does now began at `since`, `saved` it did not take; an optional call is given up at
    `until`, 0 for never.
    """

    call_id: str
    name: str
    text: str
    prepared: PreparedTool | None
    lane: int
    since: int
    sealed: int = 0
    started: int = 0
    saved: int = 0
    until: int = 0
    waited: int = 0
    waited_for: str = ""
    missed: bool = False
    outcome: str = ""
    arguments: dict[str, Any] | None = None
    step: Step | None = None
    fault: str = ""
    early: bool = False
    needs: Sequence[Job] = ()
    edges: Sequence[tuple[Job, str]] = ()
    must: Sequence[Job] = ()
    task: asyncio.Task[None] | None = None
    pending: PendingCall | None = None
    result: ToolResult | None = None
    over: bool = False
    done: asyncio.Event | None = None  # made for whoever waits first

    async def ended(self) -> None:
        """Wait until it is over."""
        if not self.over:
            self.done = self.done or asyncio.Event()
            await self.done.wait()
