"""A time limit around awaiting, at half the cost of `asyncio.timeout` (benchmarks/micro.py)."""

from __future__ import annotations

import asyncio
from types import TracebackType


class Limit:
    """`with Limit(seconds, loop):` cancels the current task when the time is over, and raises TimeoutError for it.

    None is no limit. `expired` tells our timeout from one that came from inside.
    """

    __slots__ = ("_handle", "_task", "expired", "seconds")

    def __init__(self, seconds: float | None, loop: asyncio.AbstractEventLoop) -> None:
        self.seconds = seconds
        self.expired = False
        self._task = asyncio.current_task(loop)
        self._handle = None if seconds is None else loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        self.expired = True
        assert self._task is not None
        self._task.cancel()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._handle is not None:
            self._handle.cancel()
        if self.expired and self._task is not None and self._task.uncancel() <= 0 and kind is asyncio.CancelledError:
            raise TimeoutError from error
