"""What would recorded runs have taken, if something had been otherwise?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

import msgspec

from hotloop.errors import ConfigError
from hotloop.insight.bootstrap import Compared, compare
from hotloop.insight.edits import Edit, Service
from hotloop.insight.edits.edit import Change
from hotloop.insight.graph import Graph
from hotloop.insight.schedule import schedule
from hotloop.insight.serving import ServiceProfile
from hotloop.insight.together import schedule_all
from hotloop.insight.workload import SAMPLE, Workload
from hotloop.trace.record import TraceRecord
from hotloop.trace.stats import percentile
from hotloop.units import NS_PER_MS

_SEED = 1
_MOST_DRAWS = 20


class Bound(msgspec.Struct, frozen=True):
    """Milliseconds that remain if the part of the runs that an edit is about took no time at all (Amdahl)."""

    p50: float
    p95: float
    mean: float


class Confidence(msgspec.Struct, frozen=True):
    """What the profile of a service is worth: where it is from, and how far off what it was fitted to (shares)."""

    profile: str
    source: str
    words: str
    fit_error: dict[str, float]


class Prediction(msgspec.Struct, frozen=True):
    """What edits would make of runs; times in milliseconds, with 90 % intervals by bootstrap over the runs.

    Of `of` recorded runs `runs` were scheduled anew, `draws` times each; `left_out` did not end well.
    """

    edits: list[str]
    runs: int
    of: int
    left_out: int
    draws: int
    times: Compared
    bound: Bound
    confidence: list[Confidence]
    assumptions: list[str]

    @property
    def saved_share(self) -> float:
        """What of the p50 is saved."""
        before = self.times.before.p50.value
        return self.times.saved.p50.value / before if before else 0.0


def whatif(runs: Workload | Iterable[TraceRecord], edits: Sequence[Edit]) -> Prediction:
    """What these edits, made in their order, would make of the runs.

    Raises ConfigError if there are no runs that ended well, or no edits.
    """
    work = runs if isinstance(runs, Workload) else Workload.of(runs)
    if not work.graphs:
        raise ConfigError("There is no run that ended well, so there is nothing to predict from.")
    if not edits:
        raise ConfigError("Nothing is to be changed; say what.")
    change = _all_of([edit.change(work) for edit in edits])
    least = _all_of([edit.without(work) for edit in edits])
    chance = any(edit.chance for edit in edits)
    places, after = _scheduled(work, change, chance)
    before = [work.graphs[place].took / NS_PER_MS for place in places]
    bound = [
        # calls that end sooner may get their places in an order that ends later: what was reached is no less possible
        min(schedule(least(work.graphs[place], Random(_SEED))).end / NS_PER_MS, *times)
        for place, times in zip(places, after, strict=True)
    ]
    return Prediction(
        edits=[edit.label for edit in edits],
        runs=len(before),
        of=len(work.graphs),
        left_out=work.left_out,
        draws=len(after[0]),
        times=compare(before, after),
        bound=Bound(percentile(bound, 50), percentile(bound, 95), sum(bound) / len(bound)),
        confidence=[_confidence(edit.profile) for edit in edits if isinstance(edit, Service)],
        assumptions=list(dict.fromkeys(told for edit in edits for told in edit.assumptions(work))),
    )


def _all_of(changes: Sequence[Change]) -> Change:
    def change(graph: Graph, draw: Random) -> Graph:
        for each in changes:
            graph = each(graph, draw)
        return graph

    return change


def _scheduled(work: Workload, change: Change, chance: bool) -> tuple[list[int], list[list[float]]]:
    """The places of some runs, and what each would have taken (ms), as often as it was scheduled."""
    draw = Random(_SEED)
    sample = [change(work.graphs[place], draw) for place in work.sample]
    shared = any(ask.by is not None and ask.by.shared for graph in sample for ask in graph.asks)
    stretches = work.stretches if shared else [(work.sample, 0)]
    counted = [place for places, lead in stretches for place in places[lead:]]
    draws = min(max(SAMPLE // len(counted), 1), _MOST_DRAWS) if chance else 1
    after: list[list[float]] = [[] for _ in counted]
    for _ in range(draws):
        ends: list[int] = []
        for places, lead in stretches:
            plans = schedule_all([change(work.graphs[place], draw) for place in places], draw)
            ends += [plan.end for plan in plans[lead:]]
        for end, times in zip(ends, after, strict=True):
            times.append(end / NS_PER_MS)
    return counted, after


def _confidence(profile: ServiceProfile) -> Confidence:
    return Confidence(profile.name, profile.source, profile.confidence, dict(profile.fit_error))
