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
    facts = {(turn.turn, call.lane): call for turn in record.turns for call in turn.calls}
    lanes: dict[tuple[int, int], list[Stage]] = {}
    for stage in record.stages:
        if stage.lane:
            lanes.setdefault((stage.turn, stage.lane), []).append(stage)
    found = []
    for key in sorted(lanes):
        its, stages = facts.get(key), sorted(lanes[key], key=lambda stage: stage.start)
        if (last := _end(stages)) is not None and (its is None or its.outcome not in _NOT_HERE):
            found.append(CallStages(its, stages, last))
    return sorted(found, key=lambda call: call.last.start)


def _end(stages: list[Stage]) -> Stage | None:
    """The stage with which a call ended; None for one that only waited for others."""
    ends = [stage for stage in stages if stage.kind in _ENDS and stage.name]
    last = max(ends, key=lambda stage: (stage.end, stage.start), default=None)
    return None if last is None or (last.kind == "wait" and last.note.startswith("for ")) else last
