"""Deadlines kept to a tenth of a millisecond on an event loop.

Event loops round their timers to whole milliseconds (asyncio on epoll, uvloop everywhere). On Linux one timerfd, read
by the loop like a socket, keeps all deadlines; elsewhere the loop's own timers do.
"""

from __future__ import annotations

import asyncio
import ctypes
import heapq
import math
import os
import struct
import sys
import time
from collections.abc import Callable
from itertools import count

from hotloop.units import NS_PER_S

_CLOCK_MONOTONIC = 1
_TFD_ABSTIME = 1
_NEVER = math.inf

Due = Callable[[int], None]


class DeadlineTimer:
    """Calls functions at moments of `time.monotonic_ns`, earliest first. To be made and used on a running loop."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Due]] = []
        self._order = count()
        self._armed_for: float = _NEVER
        self._alarm = _TimerFd(self._fire) if sys.platform == "linux" else _LoopTimer(self._fire)

    def at(self, deadline: int, due: Due) -> None:
        """Call `due(now)` once `deadline` has passed."""
        heapq.heappush(self._heap, (deadline, next(self._order), due))
        if deadline < self._armed_for:
            self._arm()

    def close(self) -> None:
        """Forget all deadlines."""
        self._heap.clear()
        self._alarm.close()

    def _arm(self) -> None:
        self._armed_for = self._heap[0][0] if self._heap else _NEVER
        self._alarm.set(self._heap[0][0] if self._heap else None)

    def _fire(self) -> None:
        # Only what is due by now: a deadline set in here waits for the next round, so that sockets get their turn.
        heap, now = self._heap, time.monotonic_ns()
        self._armed_for = 0  # while calling, nothing needs to be armed
        try:
            while heap and heap[0][0] <= now:
                heapq.heappop(heap)[2](time.monotonic_ns())
        finally:
            self._arm()


class _TimerFd:
    def __init__(self, ring: Callable[[], None]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "no timerfd")
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._fd, ring)

    def set(self, deadline: int | None) -> None:
        """Ring at `deadline`, or not at all. Setting also makes it unreadable again, which spares reading it."""
        seconds, nanoseconds = divmod(deadline or 0, NS_PER_S)
        self._libc.timerfd_settime(self._fd, _TFD_ABSTIME, struct.pack("llll", 0, 0, seconds, nanoseconds), None)

    def close(self) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)


class _LoopTimer:
    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None

    def set(self, deadline: int | None) -> None:
        self.close()
        if deadline is not None:
            self._handle = self._loop.call_later((deadline - time.monotonic_ns()) / NS_PER_S, self._ring)

    def close(self) -> None:
        if self._handle:
            self._handle.cancel()
