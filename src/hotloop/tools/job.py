"""One call on its way, from the moment it is sealed until it has a result."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from hotloop.budget import Deadline
from hotloop.context.conversation import Conversation
from hotloop.models.transport import Emit
from hotloop.tools.approvals.permits import Permits
from hotloop.tools.caller import Caller
from hotloop.tools.execution import Ready
from hotloop.tools.plan.plan import Step
from hotloop.tools.result import ToolResult
from hotloop.trace.ledger import Ledger

if TYPE_CHECKING:
    from hotloop.tools.approvals.store import PendingCall


class Run(msgspec.Struct, frozen=True):
    """The run that calls belong to; with `permits` it goes on after a pause."""

    ledger: Ledger
    emit: Emit
    deadline: Deadline
    caller: Caller
    conversation: Conversation
    permits: Permits | None = None


class Job(msgspec.Struct, eq=False):
    """One call of a reply, or one `step` of a plan; `text` are its arguments as the model wrote them.

    Until it may run, `fault` says why it never can, `needs` are the steps whose results it takes, `edges` all jobs that
    it waits for, and why. Afterwards it has a `result`, or none because a person must decide (`pending`), about it or
    about a call that it waits for. Times are nanoseconds. `early` jobs began before the reply was complete; one that
    has `left` no longer waits for what it began; one that `missed` was not in the cache. It is `over` when nothing more
    will come of it.
    """

    call_id: str
    name: str
    text: str
    ready: Ready | None
    lane: int
    since: int
    started: int = 0
    saved: int = 0
    arguments: dict[str, Any] | None = None
    step: Step | None = None
    fault: str = ""
    outcome: str = ""
    waited_for: str = ""
    early: bool = False
    left: bool = False
    missed: bool = False
    over: bool = False
    needs: list[Job] = []
    edges: list[tuple[Job, str]] = []
    done: asyncio.Event | None = None
    task: asyncio.Task[None] | None = None
    pending: PendingCall | None = None
    result: ToolResult | None = None

    async def ended(self) -> None:
        """Wait until it has been taken to its end."""
        if self.result is None and not self.over:
            if self.done is None:
                self.done = asyncio.Event()
            await self.done.wait()
