"""Work that ends others, all of it at once and only for so long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any


def ends_within(seconds: float, work: Iterable[Callable[[], Any]]) -> bool:
    """Do this work, each in a thread of its own, and wait for all of it; False if it is not done within this time."""
    threads = [thread for each in work if (thread := _begun(each)) is not None]
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(until - time.monotonic(), 0))
    return not any(thread.is_alive() for thread in threads)


def _begun(work: Callable[[], Any]) -> threading.Thread | None:
    """The thread that does it; None if none can be had, and it is done already."""
    thread = threading.Thread(target=work, daemon=True)
    try:
        thread.start()
    except RuntimeError:  # there are too many, or the interpreter is about to end
        work()
        return None
    return thread
