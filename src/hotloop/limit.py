"""A time limit around awaiting, at half the cost of `asyncio.timeout` (benchmarks/micro.py)."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any


class Limit:
    """`with Limit(seconds, loop):` cancels the current task when the time is over, and raises TimeoutError for it.

    None is no limit. `expired` tells our timeout from one that came from inside. Who cancels the task meanwhile has
    cancelled it, even if the inside swallows that.
    """

    __slots__ = ("_before", "_handle", "_task", "expired", "seconds")

    def __init__(self, seconds: float | None, loop: asyncio.AbstractEventLoop) -> None:
        self.seconds = seconds
        self.expired = False
        self._task: asyncio.Task[Any] = asyncio.current_task(loop)  # type: ignore[assignment]  # there is one
        self._before = self._task.cancelling()
        self._handle = None if seconds is None else loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        self.expired = True
        self._task.cancel()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._handle is not None:
            self._handle.cancel()
        cancels = self._task.uncancel() if self.expired else self._task.cancelling()
        if cancels > self._before:
            if kind is None or issubclass(kind, Exception):
                raise asyncio.CancelledError from error
        elif self.expired and kind is asyncio.CancelledError:
            raise TimeoutError from error
