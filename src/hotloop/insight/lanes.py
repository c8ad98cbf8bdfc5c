"""How the lanes of one reply's calls are read: what each did, and what it waited for before."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from msgspec.structs import replace

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


def read_calls(
    record: TraceRecord, facts: TurnFacts | None, stages: list[Stage], reply: Reply, limit: int
) -> tuple[tuple[Call, ...], int]:
    """The calls in these lanes, and when the last of those ended that the run waited for.

    It waited for none that went on after `limit`, when something else began.
    """
    stages.sort(key=_in_lane)
    lanes = [_lane(number, list(some)) for number, some in groupby(stages, _by_lane)]
    lanes, told = _with_facts(lanes, facts)
    places = {each.call_id: place for place, each in enumerate(told)}
    own = record.source == "hotloop"
    calls = []
    for lane, about in zip(lanes, told, strict=True):
        needs = tuple(places[each] for each in about.needs if each in places)
        in_line = False
        if lane.joined and (twin := _twin(lane, about, lanes)) is not None:
            needs = (*needs, twin)
        elif not own and not needs:
            needs = _before(lane, lanes)
            in_line = bool(needs)
        call = _call(record, lane, about, reply, [lanes[need].end for need in needs], lanes)
        calls.append(
            replace(call, needs=needs, in_line=in_line, joins=lane.end <= limit) if needs or lane.end > limit else call
        )
    return tuple(calls), max((lane.end for lane in lanes if lane.end <= limit), default=reply.end)


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
    """The lanes that are calls of the reply which was taken, and what is known of each."""
    known = facts.calls if facts is not None else []
    offset = (
        max((lane.number for lane in lanes), default=0) - len(known) if facts is not None and facts.discarded else 0
    )
    by_number = dict(enumerate(known, max(offset, 0) + 1))
    mine = [lane for lane in lanes if lane.number in by_number]
    if known and all(lane.name in ("", by_number[lane.number].name) for lane in mine):
        return mine, [by_number[lane.number] for lane in mine]
    left = list(known)
    return lanes, [_take(left, lane) for lane in lanes]


def _take(left: list[CallFacts], lane: _Lane) -> CallFacts:
    """What is known of a call, by its name: each of `left` once."""
    found = next((about for about in left if about.name == lane.name), None)
    if found is None:
        return CallFacts("", lane.name, "")
    left.remove(found)
    return found


def _twin(lane: _Lane, about: CallFacts, lanes: Sequence[_Lane]) -> int | None:
    """The place of the identical call whose result this one took: the one that began when its own would have."""
    started = lane.joined - about.saved
    same = [
        (abs(other.stages[other.tool].start - started), place)
        for place, other in enumerate(lanes)
        if other.tool >= 0 and other.end <= lane.end and other.name == about.name and other is not lane
    ]
    return min(same)[1] if same else None


def _before(lane: _Lane, lanes: Sequence[_Lane]) -> tuple[int, ...]:
    """Of calls that ran one after the other, the place of the one before."""
    earlier = [(other.end, place) for place, other in enumerate(lanes) if other.end <= lane.begun and other is not lane]
    return (max(earlier)[1],) if earlier else ()


def _call(
    record: TraceRecord, lane: _Lane, about: CallFacts, reply: Reply, ends: Sequence[int], lanes: Sequence[_Lane]
) -> Call:
    """The call in a lane, which waited until these `ends`."""
    sealed = max(reply.told - about.sealed - reply.first, 0)
    early = lane.begun < reply.end and reply.span > 0
    if early and lane.begun < reply.first + sealed:  # of an imported run, where nobody says when it was sealed
        sealed = max(lane.begun - reply.first, 0)
    may = max([reply.first + sealed if early else reply.end, *ends])
    before, work, after = _ahead(lane, lane.ahead, reply, may) if lane.ahead is not None else _parts(lane, may, lanes)
    said, tool = record.said.get(about.call_id, _NOTHING), record.tools.get(about.name)
    read_only = tool is not None and tool.read_only
    return Call(
        about.call_id,
        about.name,
        lane.number,
        before,
        work,
        after,
        takes_place=bool(work),
        sealed=sealed,
        early=early,
        able=read_only and tool is not None and not tool.after,
        ahead=lane.ahead is not None,
        read_only=read_only,
        outcome=about.outcome,
        digest=said.digest,
        size=said.size,
        begun=lane.stages[lane.tool].start - record.start if lane.tool >= 0 else 0,
    )


_Steps = tuple[Step, ...]


def _parts(lane: _Lane, may: int, lanes: Sequence[_Lane]) -> tuple[_Steps, _Steps, _Steps]:
    """What a call did before it took a place, with it, and after, from when it might begin (`may`)."""
    stages, idle = lane.stages, "wait" if lane.waited else "unattributed"
    if lane.tool < 0:
        return _steps(stages, may, idle, lane.joined or lane.end), (), ()
    held = lane.tool - (lane.tool > 0 and stages[lane.tool - 1].kind == "overhead")
    given = max(may, stages[held - 1].end) if held else may
    if lane.for_place:
        free = [other.stages[other.tool].end for other in lanes if other.tool >= 0 and other is not lane]
        given = max([given, *(end for end in free if end <= stages[held].start)])
    return (
        _steps(stages[:held], may, idle),
        _steps(stages[held : lane.tool + 1], given, idle),
        _steps(stages[lane.tool + 1 :], stages[lane.tool].end, idle),
    )


def _ahead(lane: _Lane, tool: Stage, reply: Reply, may: int) -> tuple[_Steps, _Steps, _Steps]:
    """The same of a call whose tool had begun ahead: from the start of its turn on."""
    work = _steps([tool], reply.begun, "unattributed")
    return (), work, _steps(lane.stages, max(may, tool.end), "wait")


def _steps(stages: Sequence[Stage], at: int, idle: str, end: int = 0) -> _Steps:
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
