"""An alarm that is kept to a tenth of a millisecond on an event loop.

Event loops round their timers to whole milliseconds (asyncio on epoll, uvloop everywhere). On Linux a timerfd, read by
the loop like a socket, keeps the moment; elsewhere, and in virtual time, the loop's own timers do.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Protocol

from hotloop.units import NS_PER_S, clock

_CLOCK_MONOTONIC = 1  # what `time.perf_counter_ns` reads on Linux
_TFD_ABSTIME = 1
_PAUSE = 100_000  # nanoseconds: waking up costs as much as several writes, so they are made in groups


class Alarm(Protocol):
    """Calls a function at a moment of `hotloop.units.clock`, in real time at most every 0.1 ms.

    On platforms other than Linux it may ring a little early.
    """

    def set(self, moment: int | None) -> None:
        """Ring at `moment` instead of whatever was set before; None: not at all."""

    def close(self) -> None:
        """Never ring again."""


def make_alarm(ring: Callable[[], None]) -> Alarm:
    """An alarm on the running event loop."""
    virtual = hasattr(asyncio.get_running_loop(), "clock_ns")
    return _LoopTimer(ring) if virtual or sys.platform != "linux" else _TimerFd(ring)


class _TimerFd:
    def __init__(self, ring: Callable[[], None]) -> None:
        self._libc = _libc()
        self._fd = self._libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "no timerfd")
        self._ring = ring
        self._rung = 0
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._fd, self._readable)

    def set(self, moment: int | None) -> None:
        """See `Alarm`. Setting also makes it unreadable again, which spares reading it."""
        seconds, nanoseconds = divmod(max(moment, self._rung + _PAUSE) if moment else 0, NS_PER_S)
        self._libc.timerfd_settime(self._fd, _TFD_ABSTIME, struct.pack("llll", 0, 0, seconds, nanoseconds), None)

    def close(self) -> None:
        """See `Alarm`."""
        self._loop.remove_reader(self._fd)
        os.close(self._fd)

    def _readable(self) -> None:
        self._rung = time.perf_counter_ns()
        self._ring()


class _LoopTimer:
    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._clock = clock()
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None

    def set(self, moment: int | None) -> None:
        """See `Alarm`."""
        self.close()
        if moment is not None:
            self._handle = self._loop.call_later((moment - self._clock()) / NS_PER_S, self._ring)

    def close(self) -> None:
        """See `Alarm`."""
        if self._handle:
            self._handle.cancel()


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
