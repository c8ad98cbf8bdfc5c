"""When every piece of a graph begins and ends, if nothing waits longer than it must."""

from __future__ import annotations

from collections.abc import Generator
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from hotloop.insight.graph import Graph
from hotloop.insight.pieces import Ask, Call, Step, Turn

if TYPE_CHECKING:
    from hotloop.insight.serving import Place


class Node(msgspec.Struct, frozen=True, gc=False):
    """A piece at its time (ns from the start of its run); `after` are the places of the nodes that it waits for."""

    kind: str
    name: str
    turn: int
    lane: int
    start: int
    end: int
    after: tuple[int, ...]


class Schedule(NamedTuple):
    """The nodes of a run, none before one that it waits for, and its end; `last` are the nodes that it ended with."""

    nodes: list[Node]
    end: int
    last: tuple[int, ...]


class Wanted(NamedTuple):
    """A request that somebody else answers than had answered it (`by`), and when it is made."""

    ask: Ask
    by: Place
    at: int


class Times(NamedTuple):
    """What a request took: to its first token, and from there to the end of the reply."""

    prefill: int
    decode: int


Walk = Generator[Wanted, Times, Schedule]
_Moment = tuple[int, tuple[int, ...]]
"""When something is over, and the places of the nodes that it waited for."""


def schedule(graph: Graph) -> Schedule:
    """The schedule of a run whose requests all take what they took."""
    try:
        wanted = next(walk(graph))
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    raise ValueError(f"{wanted.ask.model} is answered by somebody else, whose times are not known here")


def walk(graph: Graph) -> Walk:
    """The schedule of a run; it asks for the times of those requests that somebody else answers."""
    walker = _Walker(graph.places)
    for turn in graph.turns:
        yield from walker.turn(turn)
    return Schedule(walker.nodes, walker.at, walker.last)


class _Walker:
    """Goes through a run: `at` is where it has come to, `last` the nodes that it waited for there."""

    def __init__(self, places: int | None) -> None:
        self.nodes: list[Node] = []
        self.at = 0
        self.last: tuple[int, ...] = ()
        self._places = places

    def turn(self, turn: Turn) -> Generator[Wanted, Times, None]:
        """Go through one turn."""
        number, begun = turn.number, (self.at, self.last)
        reply = _NO_REPLY
        counts = turn.ask if turn.calls else None
        for piece in turn.before:
            if type(piece) is Step:
                self._step(piece, number)
            else:
                assert type(piece) is Ask
                self.at, self.last = self._add("connect", piece.model, number, 0, self.at, piece.connect, self.last)
                times = (
                    Times(piece.prefill, piece.decode) if piece.by is None else (yield Wanted(piece, piece.by, self.at))
                )
                calls = turn.calls if piece is counts else ()
                reply = self._reply(piece, times, number, calls)
        ends = self._act(turn, begun, (self.at, self.last), reply) if turn.calls else []
        for step in turn.beside:
            self._step(step, number)
        for end, last in ends:
            self.at = max(self.at, end)
            self.last += last
        for step in turn.after:
            self._step(step, number)

    def _step(self, step: Step, turn: int) -> None:
        if step.took:
            self.at, self.last = self._add(step.kind, step.name, turn, 0, self.at, step.took, self.last)

    def _add(
        self, kind: str, name: str, turn: int, lane: int, start: int, took: int, after: tuple[int, ...]
    ) -> _Moment:
        """Put a node down, unless it takes no time; when it ends, and what to wait for to be after it."""
        if not took:
            return start, after
        self.nodes.append(Node(kind, name, turn, lane, start, start + took, after))
        return start + took, (len(self.nodes) - 1,)

    def _reply(self, ask: Ask, times: Times, turn: int, calls: tuple[Call, ...]) -> dict[int, _Moment]:
        """Put a reply down, its writing cut where calls begin; when each point of its axis is, and the node before."""
        self.at, self.last = self._add("prefill", ask.model, turn, 0, self.at, times.prefill, self.last)
        first = self.at
        seals = sorted({call.sealed for call in calls if call.early})
        points = {}
        for seal in seals:
            took = _scaled(seal, ask.span, times.decode) - (self.at - first)
            self.at, self.last = self._add("decode", ask.model, turn, 0, self.at, max(took, 0), self.last)
            points[seal] = self.at, self.last
        left = times.decode - (self.at - first)
        self.at, self.last = self._add("decode", ask.model, turn, 0, self.at, max(left, 0), self.last)
        return points

    def _act(
        self,
        turn: Turn,
        begun: _Moment,
        fork: _Moment,
        reply: dict[int, _Moment],
    ) -> list[_Moment]:
        """Put the calls down, in the order in which they come; when each ends that the run waits for."""
        calls, number = turn.calls, turn.number
        ready = [reply.get(call.sealed, fork) if call.early else fork for call in calls]
        waiting = [len(call.needs) for call in calls]
        behind: dict[int, list[int]] = {}
        for place, call in enumerate(calls):
            for need in call.needs:
                behind.setdefault(need, []).append(place)
        # Each entry is a call that comes to its next part: 0 before it asks for a place, 1 what follows.
        agenda = [(ready[place][0], place, 0) for place, count in enumerate(waiting) if not count]
        agenda.sort()
        held: list[_Moment] = []
        ends = []
        while agenda:
            at, place, part = heappop(agenda)
            call = calls[place]
            if part == 0:
                for step in call.before:
                    at, ready[place] = self._lane(step, call, number, at, ready[place])
                if call.takes_place:
                    heappush(agenda, (at, place, 1))
                    continue
            else:
                at, ready[place] = self._work(call, number, at, ready[place], held, begun)
            for step in call.after:
                at, ready[place] = self._lane(step, call, number, at, ready[place])
            if call.joins:
                ends.append(ready[place])
            for other in behind.get(place, ()):
                waiting[other] -= 1
                ready[other] = _later(ready[other], ready[place])
                if not waiting[other]:
                    heappush(agenda, (ready[other][0], other, 0))
        return ends

    def _lane(self, step: Step, call: Call, turn: int, at: int, ready: _Moment) -> tuple[int, _Moment]:
        """Put a step of a call down; when it ends, by itself and with what to wait for."""
        end, after = self._add(step.kind, step.name, turn, call.lane, at, step.took, ready[1])
        return end, (end, after)

    def _work(
        self,
        call: Call,
        turn: int,
        at: int,
        ready: _Moment,
        held: list[_Moment],
        begun: _Moment,
    ) -> tuple[int, _Moment]:
        """A call's work once it has a place, or begun with the turn's request."""
        for step in call.until:
            at, ready = self._lane(step, call, turn, at, ready)
        first = ready
        if call.ahead:
            ready = begun
        elif self._places is not None and len(held) >= self._places:
            ready = _later(ready, heappop(held))
        at = ready[0]
        for step in call.work:
            at, ready = self._lane(step, call, turn, at, ready)
        if call.ahead:
            ready = _later(first, ready)
        elif self._places is not None:
            heappush(held, ready)
        return ready[0], ready


_NO_REPLY: dict[int, _Moment] = {}


def _later(one: _Moment, other: _Moment) -> _Moment:
    """When both are over."""
    return max(one[0], other[0]), (*one[1], *other[1])


def _scaled(seal: int, span: int, decode: int) -> int:
    """When a point of a reply's axis comes, if the reply is written in another time."""
    if decode == span or not span:
        return seal
    return round(seal * decode / span) if seal <= span else decode + seal - span
