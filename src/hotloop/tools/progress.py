"""How a tool at work tells a person where it is."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

reporter: ContextVar[Callable[[str], None] | None] = ContextVar("hotloop_reporter", default=None)


def report(status: str) -> None:
    """Called in a tool: tell the caller of the run what is going on ("3 of 10 pages read"), as a `ToolStatus` event.

    Works in async tools and in plain functions alike; outside a run it does nothing.
    """
    tell = reporter.get()
    if tell is not None:
        tell(status)
