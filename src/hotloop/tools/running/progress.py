"""What a tool at work knows of its run, and how it tells a person where it is."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import ContextVar
from time import perf_counter_ns

import msgspec

from hotloop.budget import Deadline
from hotloop.events import ToolStatus
from hotloop.limit import Limit
from hotloop.models.transport import Emit
from hotloop.tools.running.caller import Caller
from hotloop.units import NS_PER_S, Clock, ns


class Reporter(msgspec.Struct, frozen=True):
    """For whom a call's tool works, and who takes its events, on which loop, and while which limit holds.

    The limit began at `since` of the run's `clock`; with a `deadline`, the run's budget may end it earlier.
    """

    emit: Emit
    loop: asyncio.AbstractEventLoop
    limit: Limit
    caller: Caller
    call_id: str
    name: str
    clock: Clock = perf_counter_ns
    since: int = 0
    deadline: Deadline | None = None

    @property
    def left(self) -> float | None:
        """Seconds until the tool is stopped, never below 0; None without a limit."""
        now, seconds = self.clock(), self.limit.seconds
        by_limit = None if seconds is None else self.since + ns(seconds) - now
        by_budget = None if self.deadline is None else self.deadline.until_abort_ns(now)
        left = min((each for each in (by_limit, by_budget) if each is not None), default=None)
        return None if left is None else max(left, 0) / NS_PER_S

    def tell(self, status: str) -> None:
        """Emit a `ToolStatus`, unless the tool's time is over; called on the loop."""
        if not self.limit.expired:
            self.emit([ToolStatus(self.call_id, self.name, status)])


reporter: ContextVar[Reporter | None] = ContextVar("hotloop_reporter", default=None)
asking: ContextVar[Caller | None] = ContextVar("hotloop_asking", default=None)  # for whom a run is being prepared
_NOBODY = Caller("")


def caller() -> Caller:
    """Called in a tool, or `Context(volatile=...)`: for whom it works, by run, agent, session, user and grants.

    What there is none of is "". Works in async tools and in plain functions alike, not in a sandbox; outside a run all
    of it is empty. Calls that share one execution or a kept result have the caller that began it: a tool whose result
    depends on who asks wants `scope="user"` or narrower.
    """
    here = reporter.get()
    return here.caller if here is not None else asking.get() or _NOBODY


def remaining() -> float | None:
    """Called in a tool: the seconds that it has left, by its timeout or by the budget of its run; None without a limit.

    Works in async tools and in plain functions alike, not in a sandbox. An agent that is run in a tool has no more than
    that, unless nobody waits for it (`background=True`).
    """
    here = reporter.get()
    return None if here is None else here.left


def report(status: str) -> None:
    """Called in a tool: tell the caller of the run what is going on ("3 of 10 pages read"), as a `ToolStatus` event.

    Works in async tools and in plain functions alike; outside a run, and once the tool's time is over, it is silent.
    """
    here = reporter.get()
    if here is None:
        return
    if _runs_here(here.loop):
        here.tell(status)
    else:
        with suppress(RuntimeError):  # the loop was closed: nobody listens any more
            here.loop.call_soon_threadsafe(here.tell, status)


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
