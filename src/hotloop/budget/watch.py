"""A run under its budget: it is stopped when a limit that aborts is reached, and told of those that it exceeded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from hotloop.budget.budget import Budget
from hotloop.budget.degrading import Degrading
from hotloop.budget.spending import Row, Running, Spending, rows_of
from hotloop.errors import BudgetExceeded, ModelError
from hotloop.limit import Limit
from hotloop.trace.ledger import Ledger
from hotloop.trace.path import steps_back
from hotloop.trace.rows import ROW_OF, ROWS, by_row, by_turn
from hotloop.units import NS_PER_S

_log = logging.getLogger("hotloop.budget")

T = TypeVar("T")

_GROWS = {part: (part, "total") for part in ROWS} | {"model": ("model", "network", "total")}
_AGAIN = NS_PER_S // 1000  # the least between two looks, however little is left of a limit
_AT_ONCE = 1000  # nanoseconds that no timer can tell from none


class Allowance:
    """A budget, made ready once for all runs of an agent."""

    def __init__(self, budget: Budget) -> None:
        rows = rows_of(budget)
        self.steps = budget.degrade
        # Facts that come late are left out, whatever else is done when a limit is exceeded.
        self.final = [row for row in rows if row.on_exceed == "abort" and row.part != "memory"]
        self.told = [row for row in rows if row not in self.final]
        self.degrading = [row for row in rows if row.on_exceed == "degrade"]
        self._least = min((row.limit for row in self.told), default=0)
        self._warned = False

    def watch(self, ledger: Ledger, start: int) -> Watch | None:
        """Who looks after a run that spends from `start` on; None if nothing is done before its end."""
        return Watch(self, ledger, start) if self.degrading or self.final else None

    def tell(self, ledger: Ledger, start: int) -> None:
        """Say in the ledger and in the log which limits the run has exceeded, that was not to be stopped by them.

        It is a warning for the first run of an agent: a limit that many exceed would fill the log.
        """
        now = ledger.clock()
        if not self.told or now - start <= self._least or not self._may_be_over(ledger, now - start):
            return
        if over := self._over(ledger, start, now):
            level, self._warned = logging.INFO if self._warned else logging.WARNING, True
            _log.log(level, "Run %s was over its budget: %s.", ledger.trace_id, over)
            ledger.facts.setdefault("warnings", []).append(f"over the budget: {over}")

    def _may_be_over(self, ledger: Ledger, total: int) -> bool:
        """Whether the critical path is worth working out: no part of it, in no turn, is longer than all its stages."""
        spent = dict.fromkeys(ROWS, 0) | {"total": total}
        for stage in ledger.stages:
            spent[ROW_OF[stage.kind]] += stage.end - stage.start
        return any(spent[row.part] > row.limit for row in self.told)

    def _over(self, ledger: Ledger, start: int, now: int) -> str:
        """The limits that were exceeded, by the run or by one of its turns, for a person."""
        steps = steps_back(ledger.stages, ledger.at)
        turns, run = by_turn(steps, start), by_row(steps, start)
        run["total"] = now - start
        longest = {row: max((turn[row.part] for turn in turns), default=0) for row in self.told if row.of_turn}
        spent = ((row, longest.get(row, run[row.part])) for row in self.told)
        return ", ".join(row.told(actual) for row, actual in spent if actual > row.limit)


class Watch:
    """Looks after one run; the loop says what the run is doing. `degrading` is what it does with less, if it may."""

    __slots__ = ("_armed", "_final", "_ledger", "_limit", "_others", "_reached", "degrading", "spending")

    def __init__(self, allowance: Allowance, ledger: Ledger, start: int) -> None:
        self.spending = spending = Spending(ledger, start)
        steps, rows = allowance.steps, allowance.degrading
        self.degrading = Degrading(spending, ledger, rows, steps) if rows else None
        self._ledger = ledger
        self._final = allowance.final
        self._armed = 0  # when is looked next
        self._others = 0  # when a limit may be reached that what the run does now does not use
        self._limit: Limit | None = None
        self._reached: BudgetExceeded | None = None

    def doing(self, part: str, running: Running | None = None) -> None:
        """From now on the run does something that counts for this part; of tools at work, which are `running`."""
        spending = self.spending
        if spending.turn != self._ledger.turn:
            spending.next_turn()
        spending.doing, spending.running = part, running
        if self._others < self._armed and self._limit is not None:
            self._armed = self._others
            self._limit.again(max(self._armed - self._ledger.clock(), 0) / NS_PER_S)

    def before_reply(self) -> None:
        """The model is about to be asked."""
        self.doing("model")
        if self.degrading is not None:
            self.degrading.before_reply()

    def without_memory(self) -> None:
        """Facts from memory came too late."""
        if self.degrading is not None:
            self.degrading.without_memory()

    def stopped(self, tool: str) -> None:
        """A call of an optional tool was given up for lack of time."""
        if self.degrading is not None:
            self.degrading.stopped(tool)

    async def hold(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of the run's work. Raises BudgetExceeded as soon as a limit that aborts is reached."""
        if not self._final:
            return await work
        self._armed = self._others = self.spending.start + min(row.limit for row in self._final)
        left = max(self._armed - self._ledger.clock(), 0)
        self._limit = limit = Limit(left / NS_PER_S, asyncio.get_running_loop(), self._look)
        try:
            with limit:
                return await work
        except (TimeoutError, ModelError) as error:
            if not limit.expired:
                self._look()  # a request, too, is given up when the run's time is over
            if self._reached is not None:
                raise self._reached from error
            raise
        finally:
            self._limit = None

    def left_for_tools(self, now: int) -> int | None:
        """The nanoseconds until a tool at work would be stopped; None if it would not be."""
        spent = self.spending.spent(now)
        rows = (row for row in self._final if row.part in ("tools", "total"))
        return min((max(row.limit - spent.of(row), 0) for row in rows), default=None)

    def _look(self) -> float:
        """Seconds until a limit may be reached; 0 if one is."""
        now, grows = self._ledger.clock(), _GROWS[self.spending.doing]
        spent = self.spending.spent(now)
        soon, later = [now + NS_PER_S * 3600], [now + NS_PER_S * 3600]
        for row in self._final:
            left = row.limit - spent.of(row)
            if left < 0 or (left <= _AT_ONCE and row.part in grows):
                self._reached = _stopped(row, spent.of(row))
                return 0.0
            (soon if row.part in grows else later).append(self.spending.due(row, spent, now))
        self._armed, self._others = max(min(soon), now + _AGAIN), min(later)
        return (self._armed - now) / NS_PER_S


def _stopped(row: Row, spent: int) -> BudgetExceeded:
    sentence = (
        f"The run was stopped: it had used up budget.{row.name}, which is {row.limit / NS_PER_S:g} s. Raise it, or "
        "have the run degrade before (on_exceed)."
    )
    return BudgetExceeded(sentence, row=row.name, limit=row.limit / NS_PER_S, actual=spent / NS_PER_S)


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """The result of work for somebody who has so much time left. Raises BudgetExceeded when that is over."""
    limit = Limit(seconds, asyncio.get_running_loop())
    try:
        with limit:
            return await work
    except TimeoutError as error:
        if not limit.expired:
            raise
        sentence = f"The run was stopped after {seconds:g} s, which was all the time that its caller had left."
        raise BudgetExceeded(sentence, row="caller", limit=seconds, actual=seconds) from error
