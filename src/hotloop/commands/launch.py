"""Running a command's coroutine so that Ctrl-C ends it at once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

INTERRUPTED = 130
TO_REPORT = 2.0  # seconds of grace for a command that says, when it is stopped, what it has done
_GRACE = 0.03  # seconds in which everything that is under way may stop by itself


def run_async(main: Coroutine[Any, Any, T], grace: float = _GRACE) -> T:
    """The result of `main`, run on uvloop where that is installed.

    Ctrl-C cancels it and raises KeyboardInterrupt. What has not ended `grace` seconds after, such as a tool that blocks
    its thread, is left behind: the process then exits without it.
    """
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_interruptible(main, grace))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop


async def _interruptible(main: Coroutine[Any, Any, T], grace: float) -> T:
    cancel = signal.getsignal(signal.SIGINT)  # the runner's handler: it cancels this task
    if not callable(cancel) or threading.current_thread() is not threading.main_thread():
        return await main

    def stop(number: int, frame: FrameType | None) -> None:
        _exit_after(grace)
        cancel(number, frame)

    signal.signal(signal.SIGINT, stop)
    try:
        return await main
    finally:
        signal.signal(signal.SIGINT, cancel)


def _exit_after(seconds: float) -> None:
    timer = threading.Timer(seconds, _exit)
    timer.daemon = True
    timer.start()


def _exit() -> None:
    show_cursor = b"\x1b[?25h" if sys.stderr.isatty() else b""  # a progress bar may have hidden it
    with suppress(OSError):  # nobody reads it
        os.write(2, show_cursor + b"\nstopped\n")
    os._exit(INTERRUPTED)
