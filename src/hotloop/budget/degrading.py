"""How a run saves time once its budget is exceeded or will be: who answers, how much, and what is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hotloop.budget.budget import Degrade
from hotloop.budget.spending import Row, Spending, Spent
from hotloop.trace.ledger import Ledger
from hotloop.units import NS_PER_MS, ms, show_ms

_NO_REPLY = ("prefill", "summary")
_FOR_TOOLS = ("tools", "total")


class Pinch(NamedTuple):
    """A limit, what is spent of it, and what more is needed of it soon; nanoseconds."""

    row: Row
    spent: int
    need: int

    @property
    def left(self) -> int:
        """What will be left of it; less than 0 if it is exceeded, or will be."""
        return self.row.limit - self.spent - self.need

    @property
    def why(self) -> str:
        """The same for a person."""
        left = self.row.limit - self.spent
        if left < 0 or not self.need:
            return f"{self.row.told(self.spent)} spent"
        return f"{show_ms(left / NS_PER_MS)} of {self.row.name} left, {show_ms(self.need / NS_PER_MS)} needed"


class Degrading:
    """The steps that a run has taken, each noted in its ledger's `facts["degraded"]`.

    `model` is the place of the step whose model answers now, `max_tokens` the cap of its replies; None as ever. `taken`
    tells that there is one of them.
    """

    __slots__ = ("_due", "_ledger", "_rows", "_spending", "_steps", "max_tokens", "model", "taken")

    def __init__(self, spending: Spending, ledger: Ledger, rows: Sequence[Row], steps: Sequence[Degrade]) -> None:
        self._spending = spending
        self._ledger = ledger
        self._rows = rows
        self._steps = list(enumerate(steps))
        self._due = spending.start + min(row.limit for row in rows)  # before which no limit can be exceeded
        self.model: int | None = None
        self.max_tokens: int | None = None
        self.taken = False

    def before_reply(self) -> None:
        """Take as many steps as it needs that the next reply comes in time, as far as the run has shown."""
        if not self._steps:
            return
        need = self._usual_reply()
        if self._ledger.clock() + need < self._due:
            return
        spent = self._spent()
        while self._steps and (pinch := _tightest(self._rows, spent, _of_reply(need))).left < 0:
            place, step = self._steps.pop(0)
            need = self._take(place, step, pinch, need)

    def time_for(self, tool: str) -> int | None:
        """The nanoseconds that a call of an optional tool may take; 0 if it is left out, None without a limit.

        What it has taken before in this run it will take again, and a reply comes after it.
        """
        took = [stage.end - stage.start for stage in self._ledger.stages if stage.kind == "tool" and stage.name == tool]
        reply, spent = self._usual_reply(), self._spent()
        pinch = _tightest(self._rows, spent, _of_tool(max(took, default=0), reply))
        if pinch.left < 0:
            self._note(f"{tool} was left out", pinch)
            return 0
        rows, ended = self._for_tools, self._spending.ended(self._ledger.clock())
        return max(_tightest(rows, ended, _of_tool(0, reply)).left, 0) if rows else None

    def stopped(self, tool: str) -> None:
        """A call of an optional tool was given up, because there was no more time for it."""
        pinch = _tightest(self._for_tools, self._spent(), _of_tool(0, self._usual_reply()))
        self._note(f"{tool} was given up", pinch)

    def without_memory(self) -> None:
        """Facts from memory came too late."""
        if rows := [row for row in self._rows if row.part == "memory"]:
            self._note("facts from memory were left out", _tightest(rows, self._spent(), {}))

    def _note(self, what: str, pinch: Pinch) -> None:
        at = ms(self._ledger.clock() - self._ledger.start)
        told = {"what": what, "row": pinch.row.name, "why": pinch.why, "at_ms": at}
        self._ledger.facts.setdefault("degraded", []).append(told)

    @property
    def _for_tools(self) -> list[Row]:
        return [row for row in self._rows if row.part in _FOR_TOOLS]

    def _spent(self) -> Spent:
        """What is spent by now, and until when nothing need be looked at again."""
        now = self._ledger.clock()
        spent = self._spending.spent(now)
        self._due = min(self._spending.due(row, spent, now) for row in self._rows)
        return spent

    def _take(self, place: int, step: Degrade, pinch: Pinch, need: int) -> int:
        """Take a step; what the next reply will then take, 0 where that is not known."""
        told = []
        if step.model is not None and not self._answers(name := _name(step)):
            self.model, need = place, 0
            told.append(f"{name} answers")
        if step.max_tokens is not None:
            self.max_tokens = step.max_tokens
            need = min(need, self._reply_of(step.max_tokens) or need)
            told.append(f"replies have at most {step.max_tokens:,} tokens")
        if told:
            self.taken = True
            self._note(", ".join(told), pinch)
        return need

    def _answers(self, name: str) -> bool:
        """Whether this model has given the newest reply anyway."""
        newest = [each.model for each in self._ledger.attempts[-1:]]
        newest += [each.answered.route for each in self._ledger.facts.get("routes", ())[-1:]]
        return name in newest

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


def _tightest(rows: Sequence[Row], spent: Spent, needs: Mapping[str, int]) -> Pinch:
    """The limit of which the least is left, or that is exceeded the most, when so much more is spent, by row."""
    return min((Pinch(row, spent.of(row), needs.get(row.name, 0)) for row in rows), key=lambda pinch: pinch.left)


def _of_reply(need: int) -> Mapping[str, int]:
    return dict.fromkeys(("model", "total", "turn.model", "turn.total"), need)


def _of_tool(need: int, reply: int) -> Mapping[str, int]:
    """The reply after it belongs to the next turn."""
    return {"tools": need, "turn.tools": need, "total": need + reply, "turn.total": need}


def _name(step: Degrade) -> str:
    return step.model if isinstance(step.model, str) else step.model.name
