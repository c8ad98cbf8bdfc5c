"""What if calls ran side by side, or earlier?"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from hotloop.errors import ConfigError
from hotloop.insight.edits.edit import Change, instant_calls, with_calls
from hotloop.insight.edits.service import are_marked, token_marks
from hotloop.insight.learned import Learned, shown
from hotloop.insight.pieces import GRAIN, Ask, Call, Turn
from hotloop.insight.workload import Workload


class Parallel(msgspec.Struct, frozen=True):
    """Up to `places` calls of a reply run at once. Raises ConfigError for less than one."""

    places: int

    def __post_init__(self) -> None:
        if self.places < 1:
            raise ConfigError(f"max_parallel is {self.places}; give 1 or more.")

    @property
    def label(self) -> str:
        """See `Edit`."""
        return f"{self.places} calls at once" if self.places > 1 else "one call at a time"

    @property
    def chance(self) -> bool:
        """See `Edit`."""
        return False

    def change(self, work: Workload) -> Change:
        """See `Edit`."""

        def apart(call: Call) -> Call:
            return replace(call, needs=(), in_line=False) if call.in_line else call

        return lambda graph, _: replace(with_calls(graph, apart), places=self.places)

    def without(self, work: Workload) -> Change:
        """See `Edit`."""
        return instant_calls()

    def assumptions(self, work: Workload) -> list[str]:
        """See `Edit`."""
        return ["a tool takes no longer when others run beside it"]


class Eager(msgspec.Struct, frozen=True):
    """Calls start as soon as the model has written them, or, if it is not `on`, when the reply is complete.

    `tools` are those that it is about, None for all.
    """

    on: bool = True
    tools: frozenset[str] | None = None

    @property
    def label(self) -> str:
        """See `Edit`."""
        of = f" ({', '.join(sorted(self.tools))})" if self.tools is not None else ""
        return f"calls start {'while the reply is written' if self.on else 'when the reply is complete'}{of}"

    @property
    def chance(self) -> bool:
        """See `Edit`."""
        return False

    def change(self, work: Workload) -> Change:
        """See `Edit`."""
        return lambda graph, _: replace(graph, turns=tuple(self._turn(turn, work) for turn in graph.turns))

    def without(self, work: Workload) -> Change:
        """See `Edit`."""
        begun, instant = self.change(work), instant_calls(self.tools)
        return lambda graph, draw: instant(begun(graph, draw), draw)

    def assumptions(self, work: Workload) -> list[str]:
        """See `Edit`."""
        if not self.on:
            return []
        turns = [turn for place in work.sample for turn in work.graphs[place].turns if turn.calls]
        told = ["the tools are declared read_only, and the service streams each call as it is written"]
        if any(len(turn.calls) > 1 and (ask := turn.ask) and not are_marked(ask, turn.calls) for turn in turns):
            told.append("where nobody saw when a call was complete, the calls of a reply are of the same length")
        return told

    def _turn(self, turn: Turn, work: Workload) -> Turn:
        ask = turn.ask
        if ask is None or not turn.calls:
            return turn
        if not self.on:
            return replace(turn, calls=tuple(map(self._late, turn.calls)))
        if not are_marked(ask, turn.calls):
            turn = _streamed(turn, ask, work.service_of(ask))
        calls: list[Call] = []
        for call in turn.calls:
            calls.append(replace(call, early=True) if self._may(call, calls) else call)
        return replace(turn, calls=tuple(calls))

    def _late(self, call: Call) -> Call:
        return replace(call, early=False) if self.tools is None or call.name in self.tools else call

    def _may(self, call: Call, before: list[Call]) -> bool:
        meant = self.tools is None or call.name in self.tools
        return meant and all(need < len(before) and before[need].early for need in call.needs)


def _streamed(turn: Turn, ask: Ask, known: Learned | None) -> Turn:
    """The turn, whose reply is seen while it is written, with its calls at the points where they are complete."""
    if ask.out < 2 or known is None or known.token_out is None:
        return turn
    marks = token_marks(ask, turn.calls, known)
    seen = replace(shown(ask, True, known.token_out), span=(ask.out - 1) * GRAIN)
    calls = tuple(replace(call, sealed=round(mark * GRAIN)) for call, mark in zip(turn.calls, marks, strict=True))
    return Turn(
        turn.number, tuple(seen if each is ask else each for each in turn.before), calls, turn.beside, turn.after
    )
