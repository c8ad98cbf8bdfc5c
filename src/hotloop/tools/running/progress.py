"""How a tool at work tells a person where it is."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import ContextVar

import msgspec

from hotloop.events import ToolStatus
from hotloop.limit import Limit
from hotloop.models.transport import Emit


class Reporter(msgspec.Struct, frozen=True):
    """Who takes the events of a call's tool, on which loop, and while which limit holds."""

    emit: Emit
    loop: asyncio.AbstractEventLoop
    limit: Limit
    run_id: str
    call_id: str
    name: str

    def tell(self, status: str) -> None:
        """Emit a `ToolStatus`, unless the tool's time is over; called on the loop."""
        if not self.limit.expired:
            self.emit([ToolStatus(self.call_id, self.name, status)])


reporter: ContextVar[Reporter | None] = ContextVar("hotloop_reporter", default=None)


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
