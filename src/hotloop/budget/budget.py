"""A budget, declared: what a run and each of its turns may take, and what is done when that is not enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, get_args

import msgspec

from hotloop.errors import ConfigError
from hotloop.fields import Count, Duration, check_fields, require
from hotloop.units import ns

PARTS = ("model", "tools", "memory", "network", "other")
OnExceed = Literal["warn", "degrade", "abort"]
_OF_A_RUN = ("answer_reserve", "turn", "degrade")


class _Cap(msgspec.Struct):
    max_tokens: Count | None


class Degrade(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step by which a run saves time, once its budget is exceeded or will be; it holds to the run's end.

    `model` answers from then on: a Model, or the name of one of the agent's own, as its router or its fallback has it.
    `max_tokens` is the most that a reply may then have, and the model is asked for a short answer.
    Raises ConfigError for a step that changes nothing.
    """

    model: Any = None
    max_tokens: Count | None = None

    def __post_init__(self) -> None:
        check_fields(_Cap, {"max_tokens": self.max_tokens}, "Degrade")
        named = isinstance(self.model, str) and bool(self.model)
        is_model = self.model is None or named or hasattr(self.model, "endpoint")
        require(is_model, "Degrade(model=...): give the name of one of the agent's models, or make it with Model(...).")
        empty = self.model is None and self.max_tokens is None
        require(not empty, "Degrade() changes nothing; give it a model, max_tokens, or both.")


class Budget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run may spend, in seconds; None means no limit.

    `total` is for the whole run, the parts for its stages on the critical path; the report holds the actual times
    against them. With an `answer_reserve` the total is a deadline too: so much of its end is kept back from tools, and
    the model is asked for the best answer from what it knows by then. `turn` has the limits of each turn, which is one
    reply of the model with its calls.

    `on_exceed` says what is done when a limit is exceeded. "warn", as if it is None, tells so in the log and the trace.
    "degrade", as soon as it will be by what the run has shown so far, takes the steps of `degrade`, one after the other
    as they are needed, and leaves out calls of optional tools. "abort" stops the run then and there: it raises
    BudgetExceeded. That of `turn` is the same, unless it has its own.

    Raises ConfigError when a value is no duration, the parts exceed the total, or the reserve leaves nothing of it.
    """

    total: Duration | None = None
    model: Duration | None = None
    tools: Duration | None = None
    memory: Duration | None = None
    network: Duration | None = None
    other: Duration | None = None
    answer_reserve: Duration = 0.0
    turn: Budget | None = None
    on_exceed: OnExceed | None = None
    degrade: tuple[Degrade, ...] = ()

    def __post_init__(self) -> None:
        for name in (*PARTS, "total", "answer_reserve"):
            _check_seconds(name, getattr(self, name))
        if self.total is not None:
            self._check_fits(ns(self.total))
        elif self.answer_reserve:
            raise ConfigError("budget.answer_reserve is kept back from budget.total; set the total too")
        if self.on_exceed is not None and self.on_exceed not in get_args(OnExceed):
            raise ConfigError(f'budget.on_exceed is {self.on_exceed!r}; give "warn", "degrade" or "abort"')
        self._check_turn()
        self._check_steps()

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

    def _check_turn(self) -> None:
        if self.turn is None:
            return
        if not isinstance(self.turn, Budget):
            raise ConfigError(f"budget.turn is {self.turn!r}; make it with Budget(...)")
        for name in _OF_A_RUN:
            if getattr(self.turn, name):
                raise ConfigError(f"budget.turn.{name} is for whole runs; set budget.{name}")

    def _check_steps(self) -> None:
        is_list = isinstance(self.degrade, Sequence) and all(isinstance(step, Degrade) for step in self.degrade)
        if not is_list:
            raise ConfigError(f"budget.degrade is {self.degrade!r}; give a list of Degrade(...)")
        if self.degrade and "degrade" not in (self.on_exceed, self.turn and self.turn.on_exceed):
            raise ConfigError('budget.degrade says what to do with on_exceed "degrade"; set that too')

    @property
    def is_deadline(self) -> bool:
        """Whether its total ends the run, and not only is held against it."""
        return self.total is not None and (bool(self.answer_reserve) or self.on_exceed == "abort")

    def limits(self) -> dict[str, int]:
        """The limits that are set, in nanoseconds, by the name of their row.

        The parts in order, then "total"; then those of each turn, "turn.model" and so on.
        """
        set_limits = ((name, getattr(self, name)) for name in (*PARTS, "total"))
        own = {name: ns(seconds) for name, seconds in set_limits if seconds is not None}
        of_turns = {} if self.turn is None else self.turn.limits()
        return own | {f"turn.{name}": limit for name, limit in of_turns.items()}


def _check_seconds(name: str, value: object) -> None:
    if value is None and name != "answer_reserve":
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"budget.{name} is {value!r}; give seconds as a number")
    if not math.isfinite(value) or value < 0:
        raise ConfigError(f"budget.{name} is {value!r}; a time cannot be negative or endless")
