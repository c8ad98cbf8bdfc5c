"""What an edit is, and how graphs are changed piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Collection
from random import Random
from typing import Protocol

from msgspec.structs import replace

from hotloop.insight.graph import Graph
from hotloop.insight.learned import Learned
from hotloop.insight.pieces import Ask, Call, Step, Turn
from hotloop.insight.workload import Workload

Change = Callable[[Graph, Random], Graph]
"""Gives a changed graph, and leaves the one it was given as it is; what is left to chance is drawn."""


class Edit(Protocol):
    """One thing that could be changed."""

    @property
    def label(self) -> str:
        """What is changed, in a few words."""

    @property
    def chance(self) -> bool:
        """Whether a run could come out differently each time, so that it has to be scheduled more than once."""

    def change(self, work: Workload) -> Change:
        """How it changes a run of this workload."""

    def without(self, work: Workload) -> Change:
        """The same run if that part of it which the edit is about took no time: what no such edit can get below."""

    def assumptions(self, work: Workload) -> list[str]:
        """What has to be true for the prediction to be, a sentence each."""


def with_asks(graph: Graph, change: Callable[[Ask], Ask]) -> Graph:
    """The run with changed requests."""

    def changed(turn: Turn) -> Turn:
        before = tuple(change(piece) if type(piece) is Ask else piece for piece in turn.before)
        return Turn(turn.number, before, turn.calls, turn.beside, turn.after)

    return replace(graph, turns=tuple(map(changed, graph.turns)))


def with_calls(graph: Graph, change: Callable[[Call], Call]) -> Graph:
    """The run with changed calls."""
    turns = (replace(turn, calls=tuple(map(change, turn.calls))) if turn.calls else turn for turn in graph.turns)
    return replace(graph, turns=tuple(turns))


def hit(call: Call) -> Call:
    """The call, whose result is known already."""
    return replace(call, before=(), until=(), work=(), after=call.after, takes_place=False, outcome="cached")


def instant_calls(names: Collection[str] | None = None) -> Change:
    """Calls of these tools, or of all, take no time."""

    def instant(call: Call) -> Call:
        if names is not None and call.name not in names:
            return call
        return replace(call, before=(), until=(), work=(), after=(), takes_place=False)

    return lambda graph, _: with_calls(graph, instant)


def instant_reading(graph: Graph, _: Random) -> Graph:
    """First tokens come at once, and so do replies of which nobody saw when they began."""
    return with_asks(graph, lambda ask: replace(ask, prefill=0, decode=ask.decode if ask.span else 0, by=None))


def reread(ask: Ask, prompt: int, seen: int, known: Learned | None) -> Ask:
    """The request with a prompt of so many tokens, of which the service had seen the first `seen` before."""
    prompt, seen = max(prompt, 1), max(min(seen, prompt), 0)
    cached = None
    new, before = prompt, ask.prompt
    if ask.cached is not None or (known is not None and known.caches):
        had = ask.known if ask.cached is None else ask.cached
        cached = max(min(had + seen - ask.known, prompt), 0) if had else 0
        new, before = prompt - cached, ask.prompt - had
    cost = known.token_in if known is not None and known.token_in is not None else 0.0
    prefill = ask.prefill + round(cost * (new - before))
    decode = max(ask.decode + min(prefill, 0), 0)  # where nobody saw the first token, all of it may be there
    return replace(ask, prompt=prompt, known=seen, cached=cached, prefill=max(prefill, 0), decode=decode)


def timed_tool(call: Call, took: Callable[[int], int]) -> Call:
    """The call, whose tool takes another time than the one that it took."""
    work = tuple(Step(step.kind, took(step.took), step.name) if step.kind == "tool" else step for step in call.work)
    return replace(call, work=work)
