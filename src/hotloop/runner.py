"""Running a coroutine from code that is not async, on one event loop per thread that stays open between calls."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Coroutine
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")

_here = threading.local()


def run_here(coroutine: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result. Raises RuntimeError when called from async code, where it should be awaited."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _runner().run(coroutine, context=copy_context())  # a runner would keep that of its first call
    coroutine.close()
    raise RuntimeError("run_sync() was called from async code; write `await agent.run(...)`, or of a session, there.")


class _Owned:
    """A runner that is closed, and its connections with it, when its thread ends or the process does."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        weakref.finalize(self, _close, self.runner)


def _runner() -> asyncio.Runner:
    owned: _Owned | None = getattr(_here, "owned", None)
    if owned is None:
        owned = _here.owned = _Owned()
    return owned.runner


def _close(runner: asyncio.Runner) -> None:
    if not runner.get_loop().is_running():  # it still is when the process ends under a daemon thread
        runner.close()
