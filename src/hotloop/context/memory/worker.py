"""A thread for what nobody waits for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


class Worker:
    """Does one job after the other in a thread of its own; the process does not end before the last one is done.

    The thread is there from the first job on, in a forked child another one.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._pool: ThreadPoolExecutor | None = None
        self._process = 0

    def give(self, job: Callable[[], object]) -> None:
        """Have a job done, which is to raise nothing. Raises RuntimeError when the process is about to end."""
        self._own().submit(job)

    async def done(self, job: Callable[[], object]) -> None:
        """Do a job after all that were given before. Raises what it raises."""
        await asyncio.get_running_loop().run_in_executor(self._own(), job)

    def close(self) -> None:
        """End the thread when it has done its jobs; the next job makes a new one."""
        if self._pool is not None:
            self._pool.shutdown(wait=False)
            self._pool = None

    def _own(self) -> ThreadPoolExecutor:
        if self._pool is None or self._process != os.getpid():
            self._pool, self._process = ThreadPoolExecutor(1, self._name), os.getpid()
        return self._pool
