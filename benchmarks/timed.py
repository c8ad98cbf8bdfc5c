"""Rows of small benchmarks: how long something takes, and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass

from figures import show


@dataclass(frozen=True)
class Timed:
    """Milliseconds that something takes: median, 95th percentile, and the most that the median may be."""

    name: str
    p50: float
    p95: float
    bound: float | None = None

    @property
    def met(self) -> bool:
        """Whether the bound is."""
        return self.bound is None or self.p50 <= self.bound

    def line(self, width: int) -> str:
        """The row as text, its name in so many columns."""
        bound = "" if self.bound is None else f"<= {show(self.bound)} ms  {'met' if self.met else 'NOT MET'}"
        return f"{self.name:<{width}}{self.p50:>10.3f} ms{self.p95:>10.3f} ms   {bound}".rstrip()


def heading(width: int) -> str:
    """What stands above such rows."""
    return f"{'':<{width}}{'p50':>10}   {'p95':>10}"
