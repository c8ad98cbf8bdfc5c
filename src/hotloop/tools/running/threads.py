"""Threads for tools that are plain functions: a bounded pool, made once, that never holds up the end of the process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, TypeVar

MOST_AHEAD = 64
"""Calls that are begun before the model makes them, at once in the process."""

T = TypeVar("T")
_Job = tuple["Future[Any]", Callable[[], Any]]


class DaemonPool(Executor):
    """At most `size` daemon threads, started as they are needed.

    Unlike ThreadPoolExecutor it does not wait for its threads when the interpreter exits: a tool that hangs must not
    keep Ctrl-C from working. `depth` is how many pools' threads wait for this one.
    """

    def __init__(self, size: int, depth: int = 0) -> None:
        self._size = size
        self._depth = depth
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads = 0
        self._lock = threading.Lock()

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """See `concurrent.futures.Executor.submit`."""
        future: Future[T] = Future()
        self._jobs.put((future, lambda: function(*args, **kwargs)))
        if not self._idle.acquire(blocking=False):
            self._start_thread()
        return future

    def _start_thread(self) -> None:
        with self._lock:
            if self._threads == self._size:
                return
            self._threads += 1
            number = self._threads
        threading.Thread(target=self._work, name=f"hotloop-tool-{number}", daemon=True).start()

    def _work(self) -> None:
        _here.depth = self._depth + 1
        while True:
            future, job = self._jobs.get()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(job())
                except BaseException as error:  # the waiter decides what it means
                    future.set_exception(error)
            del future, job
            self._idle.release()


class CountedPool(DaemonPool):
    """One that tells how many more functions would begin at once: `free`."""

    def __init__(self, size: int, depth: int = 0) -> None:
        super().__init__(size, depth)
        self.free = size

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """See `concurrent.futures.Executor.submit`."""
        self._count(-1)
        future = super().submit(function, *args, **kwargs)
        future.add_done_callback(lambda _: self._count(1))
        return future

    def _count(self, by: int) -> None:
        with self._lock:
            self.free += by


class _Here(threading.local):
    depth = 0


_here = _Here()
_pools: dict[tuple[int, int], DaemonPool] = {}
_ahead: dict[int, CountedPool] = {}


def pool(size: int) -> DaemonPool:
    """The process's pool of this size; for tools of an agent that itself is run by a tool in such a pool, the next one.

    With one pool for both, the outer tools could hold all the threads that they wait for.
    """
    key = size, _here.depth
    return _pools.get(key) or _pools.setdefault(key, DaemonPool(*key))


def pool_ahead() -> CountedPool:
    """The one for calls that are begun before the model makes them, so that they never hold up those that it makes."""
    depth = _here.depth
    return _ahead.get(depth) or _ahead.setdefault(depth, CountedPool(MOST_AHEAD, depth))
