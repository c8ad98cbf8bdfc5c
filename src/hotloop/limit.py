"""Ending what is awaited: a time limit at half the cost of `asyncio.timeout` (benchmarks/micro.py), and cancelling."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")

_GRACE = 0.05  # seconds in which a cancelled task may clean up before it is cancelled again


class Limit:
    """`with Limit(seconds, loop):` cancels the current task when the time is over, and raises TimeoutError for it.

    None is no limit. When the time is over, `more` may grant further seconds; 0 are none. `expired` tells our timeout
    from one that came from inside, `cancelled` a cancellation of the task from one that was raised inside; it holds
    even if the inside swallows it.
    """

    __slots__ = ("_before", "_handle", "_loop", "_more", "_task", "cancelled", "expired", "seconds")

    def __init__(
        self, seconds: float | None, loop: asyncio.AbstractEventLoop, more: Callable[[], float] | None = None
    ) -> None:
        self.seconds = seconds
        self.expired = self.cancelled = False
        self._task: asyncio.Task[Any] = asyncio.current_task(loop)  # type: ignore[assignment]  # there is one
        self._before = self._task.cancelling()
        self._loop = loop
        self._more = more
        self._handle = None if seconds is None else loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        if self._more is not None and (seconds := self._more()) > 0:
            self._handle = self._loop.call_later(seconds, self._expire)
            return
        self.expired = True
        self._task.cancel()

    def again(self, seconds: float) -> None:
        """Have the time be over, or `more` be asked, in so many seconds from now instead, unless it is over."""
        if self._handle is not None and not self.expired:
            self._handle.cancel()
            self._handle = self._loop.call_later(seconds, self._expire)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._handle is not None:
            self._handle.cancel()
        cancels = self._task.uncancel() if self.expired else self._task.cancelling()
        if cancels > self._before:
            self.cancelled = True
            if kind is None or issubclass(kind, Exception):
                raise asyncio.CancelledError from error
        elif self.expired and kind is asyncio.CancelledError:
            raise TimeoutError from error


async def finished(work: Coroutine[Any, Any, T]) -> T:
    """The result of work that must not be broken off: whoever is cancelled meanwhile is so when it has ended."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # seen: whoever is cancelled hears of that
        raise


async def stop(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel these tasks and return when all have ended; one that still goes on after 50 ms is cancelled again."""
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_GRACE)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # seen: whoever stops a task does not want its result
