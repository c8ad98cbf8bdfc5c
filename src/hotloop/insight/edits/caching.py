"""What if results of tools were kept, or shared by who asks for the same at the same time?"""

from __future__ import annotations

from collections.abc import Collection
from random import Random

import msgspec
from msgspec.structs import replace

from hotloop.errors import ConfigError
from hotloop.insight.edits.edit import Change, hit, instant_calls, with_calls
from hotloop.insight.graph import Graph
from hotloop.insight.pieces import Call, Step
from hotloop.insight.workload import Workload
from hotloop.units import NS_PER_S, show_span
from hotloop.units import ns as to_ns

_Place = tuple[str, int, int]
"""A call: its run, its turn, its lane."""


class Cache(msgspec.Struct, frozen=True):
    """So large a share of the calls of a tool finds its result kept.

    Raises ConfigError for a rate that is none, and asked of runs in which the tool is one that changes something.
    """

    tool: str
    rate: float

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise ConfigError(f"The hit rate of {self.tool} is {self.rate:g}; give a share from 0 to 1.")

    @property
    def label(self) -> str:
        """See `Edit`."""
        return f"cache of {self.tool}, {self.rate:.0%} hits"

    @property
    def chance(self) -> bool:
        """See `Edit`."""
        return 0 < self.rate < 1

    def change(self, work: Workload) -> Change:
        """See `Edit`."""
        calls = (call for graph in work.graphs for turn in graph.turns for call in turn.calls)
        if any(call.effects and call.name == self.tool for call in calls):
            told = "results of tools with effects are never kept: give a tool that is declared read_only."
            raise ConfigError(f"{self.tool} has effects, and {told}")

        def change(graph: Graph, draw: Random) -> Graph:
            def maybe(call: Call) -> Call:
                return hit(call) if call.name == self.tool and draw.random() < self.rate else call

            return with_calls(graph, maybe)

        return change

    def without(self, work: Workload) -> Change:
        """See `Edit`."""
        return instant_calls({self.tool})

    def assumptions(self, work: Workload) -> list[str]:
        """See `Edit`."""
        return ["hits are spread over the calls by chance"]


class SeenCache(msgspec.Struct, frozen=True):
    """Results of read-only tools are kept for `ttl` seconds: the hits are those that the recorded calls would have had.

    `tools` are those that it is about, None for all that only read.
    """

    ttl: float
    tools: frozenset[str] | None = None

    @property
    def label(self) -> str:
        """See `Edit`."""
        return f"results kept for {show_span(to_ns(self.ttl))}{_of(self.tools)}"

    @property
    def chance(self) -> bool:
        """See `Edit`."""
        return False

    def change(self, work: Workload) -> Change:
        """See `Edit`."""
        return _shorter(shared_times(work, self.ttl, self.tools))

    def without(self, work: Workload) -> Change:
        """See `Edit`."""
        return instant_calls(self.tools if self.tools is not None else _read_only(work))

    def hits(self, work: Workload) -> int:
        """How many calls of these runs would have found their result, or somebody who was getting it."""
        return len(shared_times(work, self.ttl, self.tools))

    def assumptions(self, work: Workload) -> list[str]:
        """See `Edit`."""
        if not any(call.digest for graph in work.graphs for turn in graph.turns for call in turn.calls):
            return ["nothing is known of what was asked, so that no call is known to be the same as another"]
        repeated = self.hits(work)
        calls = sum(_is_meant(call, self.tools) for graph in work.graphs for turn in graph.turns for call in turn.calls)
        return [f"{repeated:,} of {calls:,} calls asked for what was known or on its way; all were of one scope"]


class SingleFlight(SeenCache, frozen=True):
    """Equal calls of read-only tools at the same time are one; nothing is kept."""

    ttl: float = 0.0

    @property
    def label(self) -> str:
        """See `Edit`."""
        return f"equal calls at the same time share one{_of(self.tools)}"


def shared_times(work: Workload, ttl: float, tools: Collection[str] | None) -> dict[_Place, int]:
    """By call that would have found its result, or somebody who was getting it: how long it would have waited (ns)."""
    waits: dict[_Place, int] = {}
    known: dict[tuple[str, str, str], tuple[int, int]] = {}  # by agent and call: when its newest result was there
    for begun, ended, key, place in sorted(_calls(work, tools)):
        had = known.get(key)
        if had is not None and begun < had[1] + ttl * NS_PER_S:
            waits[place] = max(had[1] - begun, 0)
        else:
            known[key] = begun, ended
    return waits


def _calls(work: Workload, tools: Collection[str] | None) -> list[tuple[int, int, tuple[str, str, str], _Place]]:
    """The calls that ran: when they began and ended (ns from the first run), what they asked for, and their places."""
    found = []
    start = work.graphs[0].started if work.graphs else 0.0
    for graph in work.graphs:
        offset = to_ns(graph.started - start)
        for turn in graph.turns:
            for call in turn.calls:
                if call.takes_place and call.digest and not call.ahead and _is_meant(call, tools):
                    begun = offset + call.begun
                    took = sum(step.took for step in call.work if step.kind == "tool")
                    key = graph.name, call.name, call.digest
                    found.append((begun, begun + took, key, (graph.trace_id, turn.number, call.lane)))
    return found


def _shorter(waits: dict[_Place, int]) -> Change:
    def change(graph: Graph, _: Random) -> Graph:
        turns = []
        for turn in graph.turns:
            calls = tuple(_waiting(call, waits.get((graph.trace_id, turn.number, call.lane))) for call in turn.calls)
            turns.append(replace(turn, calls=calls))
        return replace(graph, turns=tuple(turns))

    return change


def _waiting(call: Call, wait: int | None) -> Call:
    """The call, which finds its result, or has it after so long."""
    if wait is None:
        return call
    return replace(hit(call), before=(Step("wait", wait, call.name),) if wait else ())


def _is_meant(call: Call, tools: Collection[str] | None) -> bool:
    return call.read_only if tools is None else call.name in tools


def _read_only(work: Workload) -> set[str]:
    return {call.name for graph in work.graphs for turn in graph.turns for call in turn.calls if call.read_only}


def _of(tools: Collection[str] | None) -> str:
    return f" ({', '.join(sorted(tools))})" if tools is not None else ""
