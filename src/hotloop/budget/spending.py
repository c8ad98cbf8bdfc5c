"""What a run has spent of each part of its budget so far: its critical path, as if it ended now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from hotloop.budget.budget import Budget, OnExceed
from hotloop.trace.ledger import Kind, Ledger, Stage
from hotloop.trace.path import steps_back
from hotloop.trace.rows import by_row
from hotloop.units import NS_PER_MS, show_ms

Running = Callable[[], Iterable[tuple[str, int]]]
"""The calls without a result, each with when it began, 0 for not yet."""

_OPEN: dict[str, Kind] = {
    "model": "queue",
    "tools": "wait",
    "memory": "memory",
    "network": "connect",
    "other": "overhead",
}


class Row(NamedTuple):
    """One limit of a budget, in nanoseconds: of a `part`, or of the "total", of a whole run or of each turn."""

    name: str
    part: str
    of_turn: bool
    limit: int
    on_exceed: OnExceed

    def told(self, spent: int) -> str:
        """How much of it was spent, for a person."""
        return f"{self.name} {show_ms(spent / NS_PER_MS)} of {show_ms(self.limit / NS_PER_MS)}"


def rows_of(budget: Budget) -> list[Row]:
    """The limits that are set, the run's first."""
    whole = budget.on_exceed or "warn"
    each = (budget.turn.on_exceed if budget.turn is not None else None) or whole
    rows = []
    for name, limit in budget.limits().items():
        of_turn, _, part = name.rpartition(".")
        rows.append(Row(name, part, bool(of_turn), limit, each if of_turn else whole))
    return rows


class Spent(NamedTuple):
    """By part, "total" among them, of the run and of its newest turn; nanoseconds."""

    run: Counter[str]
    turn: Counter[str]

    def of(self, row: Row) -> int:
        """What counts against a limit."""
        return (self.turn if row.of_turn else self.run)[row.part]


class Spending:
    """What one run spends from `start` on. Turns that are over are counted once.

    `doing` is the part that the moment now counts for; while tools are at work, `running` has those. `turn` is the
    number of the newest turn.
    """

    __slots__ = ("_counted", "_from", "_ledger", "_turn_start", "doing", "running", "start", "turn")

    def __init__(self, ledger: Ledger, start: int) -> None:
        self._ledger = ledger
        self.start = self._turn_start = start
        self._from = len(ledger.stages) if start > ledger.start else 0  # the first stage of the newest turn
        self._counted = self._from, Counter[str]()  # the stages of turns before it, as far as they are counted
        self.turn = ledger.turn
        self.doing = "other"
        self.running: Running | None = None

    def next_turn(self) -> None:
        """What is recorded from now on belongs to another turn; nothing of the one before is under way any more."""
        self.turn, self._from, self._turn_start = self._ledger.turn, len(self._ledger.stages), self._ledger.at

    def spent(self, now: int) -> Spent:
        """What was spent up to now; any thread may ask."""
        # What ended just now is over: of a reply and a tool that began within it the tool counts.
        later = now if self.running is None else now + 1
        spent = self._path(self._open(later), later)
        for counts in spent:
            counts.subtract({self.doing: later - now, "total": later - now})
        return spent

    def ended(self, now: int) -> Spent:
        """The same without tools that are at work, which what begins now does not come after."""
        return self._path((), now)

    def _path(self, under_way: Sequence[Stage], now: int) -> Spent:
        stages, turn_start = self._ledger.stages[self._from :], self._turn_start
        turn = by_row(steps_back([*stages, *under_way], now), turn_start)
        run = self._before() + turn
        run["total"], turn["total"] = now - self.start, now - turn_start
        return Spent(run, turn)

    def due(self, row: Row, spent: Spent, now: int) -> int:
        """The moment before which this limit cannot be reached.

        A tool that began while the model was still writing may yet come to count from its own beginning.
        """
        if row.part == "tools" and self.doing == "model":
            return self._turn_start + row.limit - (0 if row.of_turn else self._before()["tools"])
        return now + row.limit - spent.of(row)

    def _before(self) -> Counter[str]:
        """What was spent in the turns before this one."""
        counted, before = self._counted
        if counted < self._from:
            earlier = self._ledger.stages[counted : self._from]
            before = before + by_row(steps_back(earlier, self._turn_start), self.start)
            self._counted = self._from, before
        return before

    def _open(self, now: int) -> Sequence[Stage]:
        """What is under way and will be recorded when it ends."""
        at, turn, asked = self._ledger.at, self._ledger.turn, self._ledger.asked
        if self.running is not None:
            begun = [Stage("tool", start, now, turn, 1, name) for name, start in self.running() if start]
            return begun or (Stage("wait", at, now, turn),)
        if self.doing == "model" and asked is not None and asked.begun >= at:
            sent_at = asked.sent_at or now
            return Stage("connect", at, sent_at, turn), Stage("prefill", sent_at, now, turn)
        return (Stage(_OPEN[self.doing], at, now, turn),)
