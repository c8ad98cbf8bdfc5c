"""How time is written: integer nanoseconds in the ledger, float seconds in Python, "600ms" in YAML, ms on screen."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable

Clock = Callable[[], int]

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

_DURATION = re.compile(r"^\s*([0-9]*\.?[0-9]+)\s*(ns|us|µs|ms|s|m|min|h)\s*$")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def clock() -> Clock:
    """The clock of the running event loop, in integer nanoseconds.

    A loop that keeps virtual time offers `clock_ns`; everywhere else it is the process's monotonic clock.
    """
    virtual: Clock | None = getattr(asyncio.get_running_loop(), "clock_ns", None)
    return virtual or time.perf_counter_ns


def is_virtual(now: Clock) -> bool:
    """Whether this clock, which `clock` gave, keeps virtual time."""
    return now is not time.perf_counter_ns


def parse_duration(value: str | float | int) -> float:
    """Seconds from "600ms", "1.5s", "2m", or a plain number of seconds.

    Raises ValueError for anything else, negative and non-finite values included.
    """
    if isinstance(value, str):
        found = _DURATION.match(value)
        if not found:
            raise ValueError(f"{value!r} is no duration; write it like 600ms, 1.5s or 2m")
        return float(found[1]) * _SECONDS[found[2]]
    if isinstance(value, bool) or not 0 <= value < float("inf"):
        raise ValueError(f"{value!r} is no duration; give seconds as a number, or text like 600ms")
    return float(value)


def ns(seconds: float) -> int:
    """Seconds to integer nanoseconds."""
    return round(seconds * NS_PER_S)


def ms(nanoseconds: int | float) -> float:
    """Nanoseconds to milliseconds, to the microsecond."""
    return (nanoseconds + 500) // 1000 / 1000


def show_span(nanoseconds: int) -> str:
    """A time to wait, for a person: in milliseconds, from a second on in seconds ("350 ms", "1.5 s", "1,200 s")."""
    seconds = nanoseconds / NS_PER_S
    return show_ms(nanoseconds / NS_PER_MS) if seconds < 1 else f"{seconds:,.1f}".removesuffix(".0") + " s"


def show_ms(milliseconds: float) -> str:
    """Milliseconds for a person: three digits that matter ("0.42 ms", "58 ms", "1,204 ms")."""
    size = abs(milliseconds)
    digits = 2 if size < 10 else 1 if size < 100 and milliseconds % 1 else 0
    return f"{milliseconds:,.{digits}f} ms"
