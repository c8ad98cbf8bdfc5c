"""The critical path of a run: the stages that it could not have ended without."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from hotloop.trace.ledger import Stage


class Step(NamedTuple):
    """The part of a stage that is on the critical path."""

    stage: Stage
    start: int
    end: int


def steps_back(stages: list[Stage], now: int) -> list[Step]:
    """The critical path from its end; see `Trace.critical_path`."""
    earlier = sorted((stage for stage in stages if stage.start < stage.end), key=lambda stage: stage.end)
    here: list[Stage] = []  # those that the moment before `now` could belong to
    steps: list[Step] = []
    while earlier or here:
        while earlier and earlier[-1].end >= now:
            here.append(earlier.pop())
        here = [stage for stage in here if stage.start < now]
        if here:
            stage = min(here, key=lambda stage: (stage.end > now, stage.kind == "wait", stage.start))
            start = _began_to_matter(stage, earlier)
            steps.append(Step(stage, start, now))
            now = start
        elif earlier:
            now = earlier[-1].end
    return steps


def took_by(name: Callable[[Stage], str], steps: Iterable[Step]) -> dict[str, int]:
    """The nanoseconds of these steps, by a name of their stages."""
    took: dict[str, int] = {}
    for step in steps:
        of = name(step.stage)
        took[of] = took.get(of, 0) + step.end - step.start
    return took


def _began_to_matter(stage: Stage, earlier: list[Stage]) -> int:
    """The start of a stage; of a wait the end of the last work before, which is what it waited for."""
    if stage.kind != "wait":
        return stage.start
    return max(stage.start, next((each.end for each in reversed(earlier) if each.kind != "wait"), stage.start))
