"""Another time for a whole process: Python's clocks are set ahead, before what is to see it is imported."""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any


def set_ahead(seconds: float) -> None:
    """Let `time` and `datetime` be ahead, for good; not the clocks for durations, nor what other libraries in C read.

    Raises RuntimeError on a Python that does not allow it.
    """
    began = datetime.now(UTC)
    now, now_ns = time.time, time.time_ns
    time.time = lambda: now() + seconds
    time.time_ns = lambda: now_ns() + round(seconds * 1e9)
    time.gmtime = _defaulting(time.gmtime, time.time)
    time.localtime = _defaulting(time.localtime, time.time)
    time.ctime = _defaulting(time.ctime, time.time)
    time.asctime = _defaulting(time.asctime, time.localtime)
    time.strftime = _defaulting(time.strftime, time.localtime, place=1)
    _replace(datetime, "now", lambda cls, tz=None: cls.fromtimestamp(time.time(), tz))
    _replace(datetime, "utcnow", lambda cls: cls.fromtimestamp(time.time(), UTC).replace(tzinfo=None))
    if (datetime.now(UTC) - began).total_seconds() < seconds:
        raise RuntimeError("The clock of this Python cannot be set ahead.")


def _defaulting(function: Callable[..., Any], default: Callable[[], Any], place: int = 0) -> Callable[..., Any]:
    """The function with another default for its argument at this place."""

    def defaulted(*given: Any) -> Any:
        own = given[place:]
        return function(*given) if own and own[0] is not None else function(*given[:place], default())

    return defaulted


def _replace(kind: type, name: str, function: Callable[..., Any]) -> None:
    """Give a type that is written in C another class method.

    A subclass in its place would not do: who looks for the type itself, as in a tool's arguments, does not know it.
    """
    (attributes,) = gc.get_referents(kind.__dict__)  # behind the read-only view
    attributes[name] = classmethod(function)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))  # its methods are cached
