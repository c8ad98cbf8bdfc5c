"""When a run must have its answer, and how much time that leaves."""

from __future__ import annotations

from collections.abc import Callable

from hotloop.budget.budget import Budget
from hotloop.units import ns

UntilAbort = Callable[[int], int | None]


def _never(now: int) -> int | None:
    return None


class Deadline:
    """When one run must have its answer; all times are integer nanoseconds of the clock that gave `start`.

    A budget sets one if it has an answer reserve or aborts; whoever has asked for the run may set one too, that ends at
    `callers`. The earlier one holds. Without any nothing is counted, and what counts says None. The class reads no
    clock, so that a virtual one works as well. `until_abort_ns` tells for a moment how much later a tool at work will
    be stopped by another limit of the budget; None for never.
    """

    __slots__ = ("end", "tools_end", "until_abort_ns")

    def __init__(
        self, budget: Budget | None, start: int, callers: int | None = None, until_abort_ns: UntilAbort = _never
    ) -> None:
        self.end = callers
        if budget is not None and budget.total is not None and budget.is_deadline:
            own = start + ns(budget.total)
            self.end = own if callers is None else min(own, callers)
        reserve = 0.0 if budget is None else budget.answer_reserve
        self.tools_end = None if self.end is None else self.end - ns(reserve)
        self.until_abort_ns = until_abort_ns

    def remaining_ns(self, now: int) -> int | None:
        """What is left of the whole run, never below 0; None without a deadline."""
        return None if self.end is None else self.end - now if now < self.end else 0

    def for_tools_ns(self, now: int) -> int | None:
        """What is left for tools, that is without the answer reserve, never below 0; None without a deadline."""
        return None if self.tools_end is None else self.tools_end - now if now < self.tools_end else 0

    def before_answer(self, now: int, most: int) -> Deadline:
        """A deadline that keeps the answer reserve free, and comes in `most` nanoseconds at the latest."""
        end = now + most if self.tools_end is None else min(self.tools_end, now + most)
        return Deadline(None, 0, end, self.until_abort_ns)

    def answer_now(self, now: int) -> bool:
        """True once only the answer reserve is left: no more tools, ask for the answer."""
        return self.tools_end is not None and now >= self.tools_end
