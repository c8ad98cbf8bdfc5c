"""How the lanes of one reply's calls are read: what each did, and what it waited for before."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from hotloop.insight.pieces import Call, Step
from hotloop.trace.ledger import CallFacts, Stage, TurnFacts
from hotloop.trace.record import Said, TraceRecord

_PLACE, _AHEAD = "for a free place", "prefetched"
_NOTHING = Said()
_in_lane = attrgetter("lane", "start", "end")
_by_lane = attrgetter("lane")


class Reply(NamedTuple):
    """Of one reply (ns): when its turn began, when its first token came, when it ended, when that was told, and how
    long it was seen to be written."""

    begun: int
    first: int
    end: int
    told: int
    span: int


class _Lane(NamedTuple):
    """The stages of one call that are work, from `begun` on; `tool` is the place of the tool among them, -1 if it did
    not run, or ran `ahead`.

    It `waited` for something, and for a place; it had the result of an identical call when it was `joined`, or 0.
    """

    name: str
    number: int
    begun: int
    end: int
    stages: list[Stage]
    tool: int
    ahead: Stage | None
    waited: bool
    for_place: bool
    joined: int

    @property
    def asked(self) -> int:
        """How many stages there are before it asks for a place."""
        return self.tool - (self.tool > 0 and self.stages[self.tool - 1].kind == "overhead")

    @property
    def held(self) -> int:
        """How many there are before it has one: all but the tool, and what comes between that and a wait for it."""
        return self.asked if self.for_place else self.tool


class _Needs(NamedTuple):
    """What a call waited for: other calls, by their places, and whether only because they were run in line."""

    places: tuple[int, ...] = ()
    in_line: bool = False


class _Begin(NamedTuple):
    """When a call might begin (ns): it was sealed so long after the first token, and may begin `early`."""

    sealed: int
    early: bool
    may: int


def read_calls(
    record: TraceRecord, facts: TurnFacts | None, stages: list[Stage], reply: Reply, limit: int
) -> tuple[tuple[Call, ...], int]:
    """The calls in these lanes, and when the last of those ended that the run waited for.

    It waited for none that went on after `limit`, when something else began.
    """
    stages.sort(key=_in_lane)
    lanes = [_lane(number, list(some)) for number, some in groupby(stages, _by_lane)]
    lanes, told = _with_facts(lanes, facts)
    needs = _needs(lanes, told, own=record.source == "hotloop")
    begins = [
        _begin(lane, about, reply, [lanes[need].end for need in each.places])
        for lane, about, each in zip(lanes, told, needs, strict=True)
    ]
    places = record.facts.get("max_parallel")
    given = _given(lanes, begins, places if isinstance(places, int) else None)
    calls = tuple(
        _call(record, lane, about, each, begin, _parts(lane, begin.may, free, reply), lane.end <= limit)
        for lane, about, each, begin, free in zip(lanes, told, needs, begins, given, strict=True)
    )
    return calls, max((lane.end for lane in lanes if lane.end <= limit), default=reply.end)


def _lane(number: int, stages: list[Stage]) -> _Lane:
    ahead = next((stage for stage in stages if stage.kind == "tool" and stage.note == _AHEAD), None)
    own = [stage for stage in stages if stage is not ahead]
    work = [stage for stage in own if stage.kind != "wait"]
    waits = [stage.note for stage in own if stage.kind == "wait"]
    return _Lane(
        next((stage.name for stage in stages if stage.name), ""),
        number,
        min([stage.start for stage in own], default=stages[0].start),
        max(stage.end for stage in stages),
        work,
        next((place for place, stage in enumerate(work) if stage.kind == "tool"), -1),
        ahead,
        bool(waits),
        _PLACE in waits,
        next((stage.end for stage in own if stage.kind == "wait" and stage.note == "joined"), 0),
    )


def _with_facts(lanes: list[_Lane], facts: TurnFacts | None) -> tuple[list[_Lane], list[CallFacts]]:
    """The lanes that are calls of the reply which was taken, and what is known of each; of no reply, all lanes."""
    known = {about.lane: about for about in facts.calls} if facts is not None else {}
    if not known:
        return lanes, [CallFacts("", lane.name, "") for lane in lanes]
    mine = [lane for lane in lanes if lane.number in known]
    return mine, [known[lane.number] for lane in mine]


def _needs(lanes: Sequence[_Lane], told: Sequence[CallFacts], *, own: bool) -> list[_Needs]:
    """What each call waited for: as it is told; the call whose result it took; or, in runs not our `own`, by time."""
    by_id = {about.call_id: place for place, about in enumerate(told)}
    found = []
    for place, (lane, about) in enumerate(zip(lanes, told, strict=True)):
        known = [need for each in about.needs if (need := by_id.get(each)) is not None]
        needs = [need for need in known if _came_first(need, place, lanes)]
        twin = _twin(lane, about, lanes) if lane.joined else None
        if twin is not None:
            found.append(_Needs((*needs, twin)))
        elif needs or own:
            found.append(_Needs(tuple(needs)))
        else:
            before = _before(place, lanes)
            found.append(_Needs(before, in_line=bool(before)))
    return found


def _came_first(need: int, place: int, lanes: Sequence[_Lane]) -> bool:
    """Whether a call can have waited for another one."""
    lane, other = lanes[place], lanes[need]
    begun = lane.stages[0].start if lane.stages else lane.end
    return other.end <= begun and (other.end, need) < (lane.end, place)


def _twin(lane: _Lane, about: CallFacts, lanes: Sequence[_Lane]) -> int | None:
    """The place of the identical call whose result this one took: the one that began when its own would have."""
    started = lane.joined - about.saved
    same = [
        (abs(other.stages[other.tool].start - started), place)
        for place, other in enumerate(lanes)
        if other.tool >= 0 and other.end <= lane.end and other.name == about.name and other is not lane
    ]
    return min(same)[1] if same else None


def _before(place: int, lanes: Sequence[_Lane]) -> tuple[int, ...]:
    """Of calls that ran one after the other, the place of the one before."""
    earlier = [
        (other.end, number)
        for number, other in enumerate(lanes)
        if number != place and _came_first(number, place, lanes)
    ]
    return (max(earlier)[1],) if earlier else ()


def _begin(lane: _Lane, about: CallFacts, reply: Reply, ends: Sequence[int]) -> _Begin:
    """When a call might begin that waited until these `ends`."""
    sealed = min(max(reply.told - about.sealed - reply.first, 0), reply.span)
    early = lane.begun < reply.end and reply.span > 0
    if early and lane.begun < reply.first + sealed:  # of an imported run, where nobody says when it was sealed
        sealed = max(lane.begun - reply.first, 0)
    return _Begin(sealed, early, max([reply.first + sealed if early else reply.end, *ends]))


def _given(lanes: Sequence[_Lane], begins: Sequence[_Begin], places: int | None) -> list[int]:
    """When each call had one of the places, which are given in the order in which they are asked for."""
    asked = [_until(lane, lane.asked, begin.may) for lane, begin in zip(lanes, begins, strict=True)]
    given = [_until(lane, lane.held, begin.may) for lane, begin in zip(lanes, begins, strict=True)]
    held: list[int] = []
    for _, place in sorted((at, place) for place, at in enumerate(asked) if lanes[place].tool >= 0):
        if places is not None and len(held) >= places:
            given[place] = max(given[place], heappop(held))
        heappush(held, lanes[place].stages[lanes[place].tool].end)
    return given


def _until(lane: _Lane, count: int, may: int) -> int:
    """When so many of a call's stages had ended."""
    return max(may, lane.stages[count - 1].end) if count > 0 else may


_Parts = tuple[tuple[Step, ...], tuple[Step, ...], tuple[Step, ...], tuple[Step, ...]]


def _call(
    record: TraceRecord,
    lane: _Lane,
    about: CallFacts,
    needs: _Needs,
    begin: _Begin,
    parts: _Parts,
    joins: bool,
) -> Call:
    said, tool = record.said.get(about.call_id, _NOTHING), record.tools.get(about.name)
    read_only = tool is not None and tool.read_only
    return Call(
        about.call_id,
        about.name,
        lane.number,
        *parts,
        takes_place=bool(parts[2]),
        sealed=begin.sealed,
        early=begin.early,
        able=read_only and tool is not None and not tool.after,
        ahead=lane.ahead is not None,
        needs=needs.places,
        in_line=needs.in_line,
        joins=joins,
        read_only=read_only,
        effects=tool is not None and not read_only,
        outcome=about.outcome,
        digest=said.digest,
        size=said.size,
        begun=lane.stages[lane.tool].start - record.start if lane.tool >= 0 else 0,
    )


def _parts(lane: _Lane, may: int, given: int, reply: Reply) -> _Parts:
    """What a call did from when it might begin: before it asked for a place, until it had it, with it, and after."""
    stages, idle = lane.stages, "wait" if lane.waited else "unattributed"
    if lane.ahead is not None:  # from the start of its turn on
        work = _steps([lane.ahead], reply.begun, "unattributed")
        return (), (), work, _steps(stages, max(may, lane.ahead.end), "wait")
    if lane.tool < 0:
        return _steps(stages, may, idle, lane.joined or lane.end), (), (), ()
    asked, held, tool = lane.asked, lane.held, lane.tool + 1
    return (
        _steps(stages[:asked], may, idle),
        _steps(stages[asked:held], _until(lane, asked, may), idle),
        _steps(stages[held:tool], given, idle),
        _steps(stages[tool:], stages[lane.tool].end, idle),
    )


def _steps(stages: Sequence[Stage], at: int, idle: str, end: int = 0) -> tuple[Step, ...]:
    """Stages that follow each other from `at` on; what is between them is `idle`."""
    steps = []
    for stage in stages:
        if stage.start > at:
            steps.append(Step(idle, stage.start - at))
        if stage.end > max(at, stage.start):
            steps.append(Step(stage.kind, stage.end - max(at, stage.start), stage.name))
        at = max(at, stage.end)
    if end > at:
        steps.append(Step(idle, end - at))
    return tuple(steps)
