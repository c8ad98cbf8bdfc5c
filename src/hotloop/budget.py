"""How long may it take: the budget of a run, its parts, and the deadline that follows from it."""

from __future__ import annotations

import math

import msgspec

from hotloop.errors import ConfigError
from hotloop.fields import Duration
from hotloop.units import ns

PARTS = ("model", "tools", "memory", "network", "other")


class Budget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run may spend, in seconds; None means no limit.

    `total` is for the whole run, the parts for its stages on the critical path; the report holds the actual times
    against them. With an `answer_reserve` the total is a deadline too: so much of its end is kept back from tools, and
    the model is asked for the best answer from what it knows by then.

    Raises ConfigError when a value is no duration, the parts exceed the total, or the reserve leaves nothing of it.
    """

    total: Duration | None = None
    model: Duration | None = None
    tools: Duration | None = None
    memory: Duration | None = None
    network: Duration | None = None
    other: Duration | None = None
    answer_reserve: Duration = 0.0

    def __post_init__(self) -> None:
        for name in (*PARTS, "total", "answer_reserve"):
            _check_seconds(name, getattr(self, name))
        if self.total is not None:
            self._check_fits(ns(self.total))
        elif self.answer_reserve:
            raise ConfigError("budget.answer_reserve is kept back from budget.total; set the total too")

    def _check_fits(self, total: int) -> None:
        if total == 0:
            raise ConfigError("budget.total is 0; leave it out for no limit, or give the run some time")
        spent = sum(ns(getattr(self, part) or 0) for part in PARTS)
        if spent > total:
            raise ConfigError(
                f"the parts of the budget add up to {spent / 1e9:g} s, over its total of {self.total:g} s"
            )
        if ns(self.answer_reserve) >= total:
            raise ConfigError(
                f"budget.answer_reserve ({self.answer_reserve:g} s) leaves nothing of budget.total ({self.total:g} s)"
            )

    def limits(self) -> dict[str, int]:
        """The limits that are set, in nanoseconds, by the name of their row: the parts in order, then "total"."""
        set_limits = ((name, getattr(self, name)) for name in (*PARTS, "total"))
        return {name: ns(seconds) for name, seconds in set_limits if seconds is not None}


def _check_seconds(name: str, value: object) -> None:
    if value is None and name != "answer_reserve":
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"budget.{name} is {value!r}; give seconds as a number")
    if not math.isfinite(value) or value < 0:
        raise ConfigError(f"budget.{name} is {value!r}; a time cannot be negative or endless")


class Deadline:
    """When one run must have its answer; all times are integer nanoseconds of the clock that gave `start`.

    Only a budget with an answer reserve sets a deadline; without one nothing is counted, and what counts says None. The
    class reads no clock, so that a virtual one works as well.
    """

    __slots__ = ("end", "tools_end")

    def __init__(self, budget: Budget | None, start: int) -> None:
        self.end: int | None = None
        self.tools_end: int | None = None
        if budget is not None and budget.total is not None and budget.answer_reserve:
            self.end = start + ns(budget.total)
            self.tools_end = self.end - ns(budget.answer_reserve)

    def remaining_ns(self, now: int) -> int | None:
        """What is left of the whole run, never below 0; None without a deadline."""
        return None if self.end is None else max(self.end - now, 0)

    def for_tools_ns(self, now: int) -> int | None:
        """What is left for tools, that is without the answer reserve, never below 0; None without a deadline."""
        return None if self.tools_end is None else max(self.tools_end - now, 0)

    def before_answer(self, now: int, most: int) -> Deadline:
        """A deadline that keeps the answer reserve free, and comes in `most` nanoseconds at the latest."""
        earlier = Deadline(None, 0)
        earlier.end = earlier.tools_end = now + most if self.tools_end is None else min(self.tools_end, now + most)
        return earlier

    def answer_now(self, now: int) -> bool:
        """True once only the answer reserve is left: no more tools, ask for the answer."""
        return self.tools_end is not None and now >= self.tools_end
