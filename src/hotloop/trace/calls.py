"""Which stages of a run belong to which call: each call has a lane of its own in its turn."""

from __future__ import annotations

from typing import NamedTuple

from hotloop.trace.ledger import CallFacts, Stage
from hotloop.trace.record import TraceRecord

_NOT_HERE = ("pending", "known")  # waits for a person, or ran before a pause
_ENDS = ("tool", "cache", "guard", "wait")


class CallStages(NamedTuple):
    """What was done for one call, in its order, and the stage that ended it: the tool at work, most often.

    `facts` are None for a call that began for a reply which came to nothing.
    """

    facts: CallFacts | None
    stages: list[Stage]
    last: Stage


def calls_of(record: TraceRecord) -> list[CallStages]:
    """The calls that ended in this record, in the order in which they began."""
    lanes: dict[tuple[int, int], list[Stage]] = {}
    for stage in record.stages:
        if stage.lane:
            lanes.setdefault((stage.turn, stage.lane), []).append(stage)
    facts = {turn.turn: [call for call in turn.calls if call.outcome not in _NOT_HERE] for turn in record.turns}
    found = []
    for turn in dict.fromkeys(turn for turn, _ in lanes):
        found += _of_turn([lanes[key] for key in sorted(lanes) if key[0] == turn], facts.get(turn, []))
    return sorted(found, key=lambda call: call.last.start)


def _of_turn(lanes: list[list[Stage]], calls: list[CallFacts]) -> list[CallStages]:
    """The calls of one turn. Those of its reply have the last lanes, in their order: before is what came to nothing."""
    ended = [(stages, last) for stages in lanes if (last := _end(stages)) is not None]
    left = list(calls)
    found = []
    for stages, last in reversed(ended):
        its = left.pop() if left and left[-1].name == last.name else None
        found.append(CallStages(its, sorted(stages, key=lambda stage: stage.start), last))
    return found[::-1]


def _end(stages: list[Stage]) -> Stage | None:
    """The stage with which a call ended; None for one that only waited for others."""
    ends = [stage for stage in stages if stage.kind in _ENDS and stage.name]
    last = max(ends, key=lambda stage: (stage.end, stage.start), default=None)
    return None if last is None or (last.kind == "wait" and last.note.startswith("for ")) else last
