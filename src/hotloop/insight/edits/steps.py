"""What if a tool took another time, or some work were left out?"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec
from msgspec.structs import replace

from hotloop.errors import ConfigError
from hotloop.insight.edits.edit import Change, instant_calls, timed_tool, with_calls
from hotloop.insight.graph import Graph
from hotloop.insight.pieces import Ask, Call, Step, Turn
from hotloop.insight.schedule import schedule
from hotloop.insight.workload import Workload
from hotloop.units import ns, show_ms

_MOST = 1_000_000


class ToolTime(msgspec.Struct, frozen=True):
    """A tool takes `factor` times as long, or `seconds`, or one of some `samples` (seconds), drawn for each call.

    Raises ConfigError unless one of them is given, from 0 to a million.
    """

    tool: str
    factor: float | None = None
    seconds: float | None = None
    samples: Sequence[float] = ()

    def __post_init__(self) -> None:
        given = [self.factor is not None, self.seconds is not None, bool(self.samples)]
        if given.count(True) != 1:
            raise ConfigError(f"ToolTime({self.tool!r}, ...): give a factor, seconds or samples.")
        if not all(0 <= each <= _MOST for each in (self.factor or 0, self.seconds or 0, *self.samples)):
            raise ConfigError(f"{self.tool} cannot take that time: give a factor or seconds from 0 to {_MOST:,}.")

    @property
    def label(self) -> str:
        """See `Edit`."""
        if self.factor is not None:
            return f"{self.tool} takes {self.factor:.3g} times as long"
        if self.seconds is not None:
            return f"{self.tool} takes {show_ms(self.seconds * 1000)}"
        return f"{self.tool} takes another time"

    @property
    def chance(self) -> bool:
        """See `Edit`."""
        return bool(self.samples)

    def change(self, work: Workload) -> Change:
        """See `Edit`."""

        def change(graph: Graph, draw: Random) -> Graph:
            def took(before: int) -> int:
                if self.factor is not None:
                    return round(before * self.factor)
                return ns(draw.choice(self.samples) if self.samples else self.seconds or 0.0)

            return with_calls(graph, lambda call: timed_tool(call, took) if call.name == self.tool else call)

        return change

    def without(self, work: Workload) -> Change:
        """See `Edit`."""
        return instant_calls({self.tool})

    def assumptions(self, work: Workload) -> list[str]:
        """See `Edit`."""
        return []


class Without(msgspec.Struct, frozen=True):
    """A kind of work takes no time, or a tool: "memory", "approval", "guard", "queue", "connect", or a tool's name.

    It may be one kind of queue alone: "waits for a place" at the service, or "waits to retry".
    """

    what: str

    @property
    def label(self) -> str:
        """See `Edit`."""
        return f"without {self.what}"

    @property
    def chance(self) -> bool:
        """See `Edit`."""
        return False

    def change(self, work: Workload) -> Change:
        """See `Edit`."""
        return lambda graph, _: replace(graph, turns=tuple(map(self._turn, graph.turns)))

    def without(self, work: Workload) -> Change:
        """See `Edit`."""
        return self.change(work)

    def assumptions(self, work: Workload) -> list[str]:
        """See `Edit`."""
        nodes = (node for place in work.sample for node in schedule(work.graphs[place]).nodes)
        if not any(self.what in (node.kind, node.name) for node in nodes):
            return [f"none of these runs has any {self.what} that took time"]
        return [f"nothing else changes when {self.what} is left out, nor do the prompts"]

    def _turn(self, turn: Turn) -> Turn:
        before = tuple(self._ask(each) if type(each) is Ask else self._step(each) for each in turn.before)
        calls = tuple(map(self._call, turn.calls))
        return Turn(turn.number, before, calls, self._steps(turn.beside), self._steps(turn.after))

    def _ask(self, ask: Ask) -> Ask:
        return replace(ask, connect=0) if self.what == "connect" else ask

    def _step(self, step: Step | Ask) -> Step:
        assert type(step) is Step
        return Step(step.kind, 0, step.name) if self.what in (step.kind, step.name) else step

    def _steps(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(map(self._step, steps))

    def _call(self, call: Call) -> Call:
        if call.name == self.what:
            return replace(call, before=(), until=(), work=(), after=(), takes_place=False)
        parts = {name: self._steps(getattr(call, name)) for name in ("before", "until", "work", "after")}
        return replace(call, **parts)
