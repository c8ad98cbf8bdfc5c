"""How a tool at work tells a person where it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from hotloop.events import ToolStatus
from hotloop.limit import Limit

reporter: ContextVar[tuple[Callable[..., Any], asyncio.AbstractEventLoop, Limit, str, str] | None]
reporter = ContextVar("hotloop_reporter", default=None)  # who takes events, on which loop, until when; call id and tool


def report(status: str) -> None:
    """Called in a tool: tell the caller of the run what is going on ("3 of 10 pages read"), as a `ToolStatus` event.

    Works in async tools and in plain functions alike; outside a run, and once the tool's time is over, it is silent.
    """
    telling = reporter.get()
    if telling is None:
        return
    emit, loop, limit, call_id, name = telling
    event = ToolStatus(call_id, name, status)
    if _runs_here(loop):
        _tell(emit, limit, event)
    else:
        with suppress(RuntimeError):  # the loop was closed: nobody listens any more
            loop.call_soon_threadsafe(_tell, emit, limit, event)


def _tell(emit: Callable[..., Any], limit: Limit, event: ToolStatus) -> None:
    if not limit.expired:
        emit([event])


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
