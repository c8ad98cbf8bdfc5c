"""Running a coroutine from code that is not async, on one event loop per thread that stays open between calls."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_here = threading.local()


def run_here(coroutine: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result. Raises RuntimeError when called from async code, where it should be awaited."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _runner().run(coroutine)
    coroutine.close()
    raise RuntimeError("run_sync() was called from async code; write `await agent.run(...)` there.")


def _runner() -> asyncio.Runner:
    runner: asyncio.Runner | None = getattr(_here, "runner", None)
    if runner is None:
        runner = _here.runner = asyncio.Runner()
        atexit.register(runner.close)
    return runner
