"""How events reach whoever streams a run: one bounded queue, read in batches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

from hotloop.errors import ApprovalRequired
from hotloop.events import Event, RunFinished, RunPaused
from hotloop.limit import stop
from hotloop.models.transport import Emit, Throttle

_HIGH = 1024  # events waiting at which the model's reply is held up until they are read


class Outlet:
    """Takes events from a run and gives them to one reader.

    A reader that falls behind slows the network down instead of filling memory. The run's own few events are always
    taken, so that the bound is exceeded by no more than one network read and one round of tools.
    """

    __slots__ = ("_closed", "_ended", "_events", "_held", "_loop", "_waiter")

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._waiter: asyncio.Future[bool] | None = None
        self._held: Throttle | None = None
        self._ended = self._closed = False
        self._loop = asyncio.get_running_loop()

    def put(self, events: Sequence[Event], throttle: Throttle | None = None) -> None:
        """Take these events; pause `throttle` if too many are waiting."""
        if not events or self._closed:
            return
        self._events += events
        if len(self._events) > _HIGH and throttle is not None and throttle is not self._held:
            self._held = throttle
            throttle.pause()
        self._wake()

    def close(self) -> None:
        """Nobody reads any more: nothing is held up."""
        self._closed = True
        self.take()

    def end(self) -> None:
        """No more events will come."""
        self._ended = True
        self._wake()

    def wait(self) -> asyncio.Future[bool]:
        """Await it until events are there; its result is False once there will be no more."""
        waiter: asyncio.Future[bool] = self._loop.create_future()
        if self._events or self._ended:
            waiter.set_result(bool(self._events))
        else:
            self._waiter = waiter
        return waiter

    def take(self) -> list[Event]:
        """All events that are waiting."""
        events, self._events = self._events, []
        if self._held is not None:
            held, self._held = self._held, None
            held.resume()
        return events

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(bool(self._events))


async def streamed(run: Callable[[Emit], Awaitable[Any]]) -> AsyncGenerator[Event]:
    """The events of a run, which goes on beside its reader and stops with it; the last has its result, or its pause."""
    outlet = Outlet()

    async def work() -> Any:
        try:
            return await run(outlet.put)
        finally:
            outlet.end()

    task = asyncio.create_task(work())
    try:
        while await outlet.wait():
            for event in outlet.take():
                yield event
        try:
            yield RunFinished(await task)
        except ApprovalRequired as pause:
            yield RunPaused(pause.run_id, pause.calls, pause.trace)
    finally:
        outlet.close()
        await stop([task])
