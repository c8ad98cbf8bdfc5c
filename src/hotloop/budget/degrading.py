"""How a run saves time once its budget is exceeded or will be: who answers, how much, and what is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hotloop.budget.declared import Degrade
from hotloop.budget.spending import Row, Spending, Spent
from hotloop.trace.ledger import Ledger
from hotloop.units import NS_PER_MS, ms, show_ms

_NO_REPLY = ("prefill", "summary")


class Late(NamedTuple):
    """A limit that is exceeded, or will be, and why that is known."""

    row: Row
    why: str


class Degrading:
    """The steps that a run has taken, each noted in its ledger's `facts["degraded"]`.

    `model` is the place of the step whose model answers now, `max_tokens` the cap of its replies; None as ever.
    """

    __slots__ = ("_due", "_ledger", "_rows", "_spending", "_steps", "max_tokens", "model")

    def __init__(self, spending: Spending, ledger: Ledger, rows: Sequence[Row], steps: Sequence[Degrade]) -> None:
        self._spending = spending
        self._ledger = ledger
        self._rows = rows
        self._steps = list(enumerate(steps))
        self._due = spending.start + min(row.limit for row in rows)  # before which no limit can be exceeded
        self.model: int | None = None
        self.max_tokens: int | None = None

    def before_reply(self) -> None:
        """Take as many steps as it needs that the next reply comes in time, as far as the run has shown."""
        need = self._usual_reply()
        while self._steps and (late := self._late(_of_reply(need))) is not None:
            place, step = self._steps.pop(0)
            need = self._take(place, step, late, need)

    def time_for(self, tool: str) -> int | None:
        """The nanoseconds that a call of an optional tool may take; 0 if it is left out, None without a limit.

        It may take what is left beside a reply; what it has taken before in this run it will take again.
        """
        took = [stage.end - stage.start for stage in self._ledger.stages if stage.kind == "tool" and stage.name == tool]
        need, reply = max(took, default=0), self._usual_reply()
        if late := self._late({"tools": need, "turn.tools": need, "total": need + reply, "turn.total": need}):
            self.note(f"{tool} was left out", late)
            return 0
        now = self._ledger.clock()
        spent = self._spending.spent(now)
        rows = (row for row in self._rows if row.part in ("tools", "total"))
        return min((row.limit - spent.of(row) - reply * (row.name == "total") for row in rows), default=None)

    def note(self, what: str, late: Late) -> None:
        """Something was done because a limit is, or will be, exceeded."""
        at = ms(self._ledger.clock() - self._ledger.start)
        told = {"what": what, "row": late.row.name, "why": late.why, "at_ms": at}
        self._ledger.facts.setdefault("degraded", []).append(told)

    def _late(self, needs: Mapping[str, int]) -> Late | None:
        """The limit that is exceeded the most, or will be when so much more is spent, by row; None if none is."""
        now = self._ledger.clock()
        if now + max(needs.values()) < self._due:
            return None
        spent = self._spending.spent(now)
        self._due = min(self._spending.due(row, spent, now) for row in self._rows)
        row = min(self._rows, key=lambda row: row.limit - spent.of(row) - needs.get(row.name, 0))
        return _why(row, spent, needs.get(row.name, 0))

    def _take(self, place: int, step: Degrade, late: Late, need: int) -> int:
        """Take a step; what the next reply will then take, 0 where that is not known."""
        told = []
        if step.model is not None and not self._answers(name := _name(step)):
            self.model, need = place, 0
            told.append(f"{name} answers")
        if step.max_tokens is not None:
            self.max_tokens = step.max_tokens
            need = min(need, self._reply_of(step.max_tokens) or need)
            told.append(f"answers have at most {step.max_tokens:,} tokens")
        if told:
            self.note(", ".join(told), late)
        return need

    def _answers(self, name: str) -> bool:
        """Whether this model has given the newest reply anyway."""
        ledger = self._ledger
        routes = ledger.facts.get("routes")
        return name in [each.model for each in ledger.attempts[-1:]] or bool(
            routes and routes[-1].answered.route == name
        )

    def _usual_reply(self) -> int:
        """How long the newest reply took, 0 if there was none: what the next one will take."""
        for each in reversed(self._ledger.attempts):
            if each.outcome == "ok" and each.why not in _NO_REPLY:
                return each.end - each.start
        return 0

    def _reply_of(self, tokens: int) -> int:
        """How long a reply of so many tokens takes, by the newest one; 0 where that does not tell."""
        newest = self._ledger.turns[-1] if self._ledger.turns else None
        if newest is None or newest.ttft is None or newest.tpot is None:
            return 0
        return newest.ttft + (tokens - 1) * newest.tpot


def _of_reply(need: int) -> Mapping[str, int]:
    return dict.fromkeys(("model", "total", "turn.model", "turn.total"), need)


def _why(row: Row, spent: Spent, need: int) -> Late | None:
    actual = spent.of(row)
    left = row.limit - actual
    if left < 0:
        return Late(row, f"{row.told(actual)} spent")
    if left < need:
        return Late(row, f"{show_ms(left / NS_PER_MS)} left, {show_ms(need / NS_PER_MS)} needed")
    return None


def _name(step: Degrade) -> str:
    return step.model if isinstance(step.model, str) else step.model.name
