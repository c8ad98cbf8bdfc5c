"""Virtual time: an event loop whose clock jumps to the next timer as soon as nothing else can happen.

Sleeping costs nothing and every time is exact, so that a test can assert milliseconds. The clock counts integer
nanoseconds and begins at one second, because 0 so often means "not yet". It stands still while code runs, and while a
thread job (`run_in_executor`, `asyncio.to_thread`) is awaited: such a job takes no virtual time, however long it
takes. Real sockets are not for virtual time: what they still carry does not hold the clock back.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar

from hotloop.errors import HotloopError
from hotloop.units import NS_PER_S, ms, ns

T = TypeVar("T")


class VirtualDeadlock(HotloopError):
    """Every task waits, and no timer, thread job or socket is left that could wake one."""


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` on a fresh virtual-time loop and return its result.

    Raises VirtualDeadlock instead of waiting for ever.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time."""

    def __init__(self) -> None:
        self._now = _JumpingClock()
        super().__init__(self._now)
        # A timer is due when it lies within this many seconds: one nanosecond on every platform.
        self._clock_resolution = 1e-9

    def time(self) -> float:
        """Virtual seconds; only differences mean anything."""
        return self._now.ns / NS_PER_S

    def clock_ns(self) -> int:
        """Virtual nanoseconds; only differences mean anything."""
        return self._now.ns

    def spend(self, seconds: float) -> None:
        """Let so much time pass at once, as code does that keeps the loop busy."""
        self._now.ns += ns(seconds)

    def run_in_executor(  # type: ignore[override]  # a future, as asyncio returns one
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """As in asyncio; virtual time stands still until the job is done or nobody waits for it any longer."""
        job: asyncio.Future[T] = super().run_in_executor(executor, func, *args)
        self._now.jobs += 1
        job.add_done_callback(self._job_done)
        return job

    async def shutdown_default_executor(self, *args: Any) -> None:
        """As in asyncio; joining the threads takes no virtual time."""
        self._now.jobs += 1
        try:
            await super().shutdown_default_executor(*args)
        finally:
            self._now.jobs -= 1

    def _job_done(self, _: asyncio.Future[Any]) -> None:
        self._now.jobs -= 1


class _JumpingClock(selectors.DefaultSelector):
    """A selector that moves time forward where another would sleep."""

    def __init__(self) -> None:
        super().__init__()
        self.ns = NS_PER_S
        self.jobs = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.jobs and timeout != 0:
            return super().select(None)
        events = super().select(0)
        if events or timeout == 0:
            return events
        if timeout is not None:
            self.ns += ns(timeout)
            return events
        return super().select(None) if self._has_sockets() else self._give_up()

    def _has_sockets(self) -> bool:
        return len(self.get_map()) > 1  # the loop's own wake-up pipe is always there

    def _give_up(self) -> list[tuple[selectors.SelectorKey, int]]:
        waiting = ", ".join(sorted(task.get_name() for task in asyncio.all_tasks())) or "none"
        raise VirtualDeadlock(
            f"Deadlock after {ms(self.ns - NS_PER_S)} ms of virtual time: nothing is ready and no timer or thread job "
            f"is left. Waiting tasks: {waiting}."
        )
