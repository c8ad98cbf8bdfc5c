"""The stages of a run, from its parts: whose each moment was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

from msgspec.structs import replace

from hotloop.trace.importing import names
from hotloop.trace.importing.asked import Asked
from hotloop.trace.importing.intervals import Interval, left_by, together
from hotloop.trace.importing.names import told_text
from hotloop.trace.importing.parts import Part
from hotloop.trace.importing.turns import Call, Turn, Turns
from hotloop.trace.ledger import UNKNOWN_FIRST, Kind, Stage

_OWN = "hotloop"  # the stages in traces of our own: see `hotloop.trace.otel.spans`
_OWN_KINDS: dict[str, Kind] = {kind: kind for kind in get_args(Kind)}
_KINDS: dict[str, Kind] = {"tool": "tool", "memory": "memory", "guard": "guard", "http": "connect"}


class Stages:
    """Makes the stages; their times are nanoseconds from the start of the run of this `agent`.

    Requests to models that other agents made for it have their names.
    """

    def __init__(self, parts: Sequence[Part], turns: Turns, agent: str) -> None:
        self._start = parts[0].node.start
        self._agent = agent
        self._turns = turns
        self._calls = {id(call.called.node): (turn, call) for turn in turns.all for call in turn.calls if call.called}
        self._asked = {id(asked.node): (turn, asked) for turn in turns.all for asked in turn.attempts}
        self._lanes = {turn.number: len(turn.calls) for turn in turns.all}
        self._parts = parts

    def all(self) -> list[Stage]:
        """All stages, in the order in which they ended."""
        untraced = [(turn, call) for turn in self._turns.all for call in turn.calls if call.called is None]
        stages = [stage for part in self._parts for stage in self._of(part)]
        if untraced:
            times = sorted((call.start - self._start, call.end - self._start) for _, call in untraced)
            stages = list(self._without(stages, together(times)))
            stages += (self._tool(turn, call, call.end) for turn, call in untraced)
        return sorted(stages, key=lambda stage: (stage.end, stage.start))

    def _without(self, stages: Sequence[Stage], taken: list[Interval]) -> Iterator[Stage]:
        """The stages without the run's own work at these times: nobody knows what of it was the tools'."""
        for stage in stages:
            if stage.kind != "overhead" or stage.lane:
                yield stage
                continue
            for start, end in left_by(taken, stage.start, stage.end):
                yield replace(stage, start=start, end=end, turn=self._turns.at(start + self._start, 0))

    def _of(self, part: Part) -> Iterator[Stage]:
        node = part.node
        if (found := self._asked.get(id(node))) is not None:
            yield from self._request(*found, part)
        elif (call := self._calls.get(id(node))) is not None:
            yield from self._call(part, *call)
        else:
            yield from self._own(part, _kind_of(part), part.own)

    def _own(self, part: Part, kind: Kind, times: Sequence[Interval]) -> Iterator[Stage]:
        named = told_text(part.node.span.attributes, names.TOOL) if kind == "tool" else ""
        name = named or part.node.span.name
        for start, end in times:
            number = self._turns.at(start, part.line)
            lane = part.line and self._lanes.get(number, 0) + part.line
            yield self._stage(kind, start, end, number, lane, name)

    def _call(self, part: Part, turn: Turn, call: Call) -> Iterator[Stage]:
        """A tool at work; one with an agent in it up to where that begins, and what comes later is beside its turns."""
        node, own = part.node, part.own
        first = own[:1] if own and own[0][0] == node.start else []
        end = first[0][1] if first else node.start
        yield self._tool(turn, call, end)
        yield from self._own(part, "overhead", own[len(first) :])

    def _request(self, turn: Turn, asked: Asked, part: Part) -> Iterator[Stage]:
        lane = part.line and self._lanes.get(turn.number, 0) + part.line
        agent = part.agent if part.agent != self._agent else ""
        at = asked.start
        for kind, end, note in _course(asked):
            if end > at:
                yield self._stage(kind, at, end, turn.number, lane, agent, note)
                at = end

    def _tool(self, turn: Turn, call: Call, end: int) -> Stage:
        return self._stage("tool", call.start, end, turn.number, call.lane, call.name)

    def _stage(self, kind: Kind, start: int, end: int, turn: int, lane: int, name: str = "", note: str = "") -> Stage:
        return Stage(kind, start - self._start, end - self._start, turn, lane, name, note)


def _kind_of(part: Part) -> Kind:
    if not part.whole:
        return "overhead"
    scope, _, kind = part.node.span.name.partition(" ")[0].partition(".")
    if scope == part.node.span.scope == _OWN and kind in _OWN_KINDS:
        return _OWN_KINDS[kind]
    return _KINDS.get(part.role, "overhead")


def _course(asked: Asked) -> Iterator[tuple[Kind, int, str]]:
    """What a request was from one moment to the next: the kind, until when, and a note."""
    before = None
    for each in asked.tries:
        if before is None:
            yield "context", each.start, ""
        else:
            yield "prefill", before.end, "failed"
            yield "queue", each.start, f"retry after {before.error}" if before.error else ""
        before = each
    if asked.error:
        yield "prefill", asked.end, "failed"
    elif asked.first is None:
        yield "decode", asked.end, UNKNOWN_FIRST
    else:
        yield "prefill", asked.first, ""
        yield "decode", asked.end, ""
