"""Two tries at the same thing, of which the first that shows a result is taken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from hotloop.errors import ModelError
from hotloop.limit import stop

T = TypeVar("T")
Claim = Callable[[], bool]


class Race(Generic[T]):
    """Runs `begin(number, claim)` once and, if nothing came of it `after` seconds later and `may()` says so, again.

    Whoever calls its `claim` first, or ends well first, wins, and the other is cancelled; a claim of the other is
    answered with False. One that fails with a ModelError leaves it to the other; if both do, the last failure is
    raised. `ended()` is called once for each that was begun, even if it was cancelled before its first step.
    """

    def __init__(self, begin: Callable[[int, Claim], Coroutine[Any, Any, T]], ended: Callable[[], None]) -> None:
        self.winner: int | None = None
        self._begin = begin
        self._ended = ended
        self._tasks: list[asyncio.Task[T]] = []
        self._open: set[asyncio.Task[T]] = set()
        self._decided: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, after: float, may: Callable[[], bool]) -> T:
        """The winner's result."""
        try:
            first = self._start()
            await self._first_of([first], after)
            if not first.done() and self.winner is None and may():
                self._start()
            return await self._won()
        finally:
            await stop(self._tasks)
            for task in self._tasks:
                self._close(task)  # now, and not with the next turn of the event loop

    async def _won(self) -> T:
        running = list(self._tasks)
        while self.winner is None:
            await self._first_of(running)
            for task in [task for task in running if task.done()]:
                running.remove(task)
                if not (running and _has_failed(task)):
                    self._decide(self._tasks.index(task))
        return await self._tasks[self.winner]

    async def _first_of(self, running: list[asyncio.Task[T]], seconds: float | None = None) -> None:
        ends: list[asyncio.Future[Any]] = [*running, self._decided]
        await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)

    def _start(self) -> asyncio.Task[T]:
        number = len(self._tasks)
        task = asyncio.create_task(self._begin(number, lambda: self._decide(number)))
        task.add_done_callback(self._close)
        self._tasks.append(task)
        self._open.add(task)
        return task

    def _close(self, task: asyncio.Task[T]) -> None:
        if task in self._open:
            self._open.remove(task)
            self._ended()

    def _decide(self, number: int) -> bool:
        if self.winner is None:
            self.winner = number
            self._decided.set_result(None)
            for other, task in enumerate(self._tasks):
                if other != number:
                    task.cancel()
        return self.winner == number


def _has_failed(task: asyncio.Task[Any]) -> bool:
    """Whether it failed in a way in which the other one need not fail."""
    return not task.cancelled() and isinstance(task.exception(), ModelError)
