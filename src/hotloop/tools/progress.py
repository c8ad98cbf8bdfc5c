"""How a tool at work tells a person where it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from hotloop.events import ToolStatus

reporter: ContextVar[tuple[Callable[..., Any], asyncio.AbstractEventLoop, str, str] | None]
reporter = ContextVar("hotloop_reporter", default=None)  # who takes events, on which loop, for which call and tool


def report(status: str) -> None:
    """Called in a tool: tell the caller of the run what is going on ("3 of 10 pages read"), as a `ToolStatus` event.

    Works in async tools and in plain functions alike; outside a run it does nothing.
    """
    telling = reporter.get()
    if telling is None:
        return
    emit, loop, call_id, name = telling
    event = ToolStatus(call_id, name, status)
    if _runs_here(loop):
        emit([event])
    else:
        loop.call_soon_threadsafe(emit, [event])


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
