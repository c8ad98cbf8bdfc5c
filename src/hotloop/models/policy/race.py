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
        self._won: asyncio.Future[asyncio.Task[T]] = asyncio.get_running_loop().create_future()

    async def run(self, after: float, may: Callable[[], bool]) -> T:
        """The winner's result."""
        loop = asyncio.get_running_loop()
        self._start()
        timer = loop.call_later(after, loop.call_soon, self._start_again, may)  # after all that happens just then
        try:
            return (await self._won).result()
        finally:
            timer.cancel()
            await stop(self._tasks)

    def _start(self) -> None:
        number = len(self._tasks)
        task = asyncio.create_task(self._begin(number, lambda: self._decide(number)))
        task.add_done_callback(self._close)
        self._tasks.append(task)
        self._open.add(task)

    def _start_again(self, may: Callable[[], bool]) -> None:
        if self.winner is None and not (self._won.done() or self._tasks[0].done()) and may():
            self._start()

    def _decide(self, number: int) -> bool:
        if self.winner is None:
            self.winner = number
            for other, task in enumerate(self._tasks):
                if other != number:
                    task.cancel()
        return self.winner == number

    def _close(self, task: asyncio.Task[T]) -> None:
        self._open.remove(task)
        self._ended()
        if self._won.done():  # or nobody waits for it any longer
            return
        number = self._tasks.index(task)
        won = self.winner == number if self._open and _has_failed(task) else self._decide(number)
        if won:
            self._won.set_result(task)


def _has_failed(task: asyncio.Task[Any]) -> bool:
    """Whether it failed in a way in which the other one need not fail."""
    return not task.cancelled() and isinstance(task.exception(), ModelError)
