"""What runs could not have ended without, one or thousands: the critical path; and what had time to spare."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from hotloop.insight.graph import Graph
from hotloop.insight.schedule import Node, Schedule, schedule
from hotloop.trace.stats import percentile
from hotloop.units import ms

Key = tuple[str, str]
"""The kind of a node and its name: the tool, the model, or what a queue was for; "" for other work of the run."""


class PathRow(msgspec.Struct, frozen=True):
    """One kind of work over many runs; times in milliseconds.

    It is on the critical path of a share of `on_path` of the runs; `mean_ms` of it are there in the mean of all runs,
    so that the means add up to the mean run, of which this is the `share`. `p50_ms` and `p95_ms` are of the runs that
    have it there. `work_ms` is what of it there is in the mean run, on the path or beside it. `slack_ms` is how much
    longer it could take, in half of the runs that have it, before the run ends later.
    """

    kind: str
    name: str
    on_path: float
    share: float
    mean_ms: float
    p50_ms: float
    p95_ms: float
    work_ms: float
    slack_ms: float


class CriticalPath(NamedTuple):
    """The critical path over `runs` runs, what has the largest share first; times in milliseconds."""

    runs: int
    mean_ms: float
    p50_ms: float
    p95_ms: float
    rows: list[PathRow]


def path_of(plan: Schedule) -> list[Node]:
    """The nodes that the run ended with, each after one that it waited for; from the first to the last."""
    nodes, after, path = plan.nodes, plan.last, []
    while after:
        node = nodes[after[0]] if len(after) == 1 else max([nodes[place] for place in after], key=_end)
        path.append(node)
        after = node.after
    path.reverse()
    return path


def slack_of(plan: Schedule) -> list[int]:
    """By node, how much longer it could take (ns) before the run ended later, if nothing else changed."""
    nodes, latest = plan.nodes, [max(plan.end, node.end) for node in plan.nodes]
    for place in range(len(nodes) - 1, -1, -1):
        node = nodes[place]
        start = latest[place] - node.end + node.start
        for before in node.after:
            if latest[before] > start:
                latest[before] = start
    return [late - node.end for late, node in zip(latest, nodes, strict=True)]


class Paths:
    """Adds up the critical paths of many runs."""

    def __init__(self) -> None:
        self._took: list[int] = []
        self._of: dict[Key, _Sums] = {}

    def add(self, plan: Schedule) -> None:
        """One more run."""
        self._took.append(plan.end)
        here: dict[Key, int] = {}
        for node in path_of(plan):
            key = node.kind, node.name
            here[key] = here.get(key, 0) + node.end - node.start
        spare: dict[Key, int] = {}
        of = self._of
        for node, slack in zip(plan.nodes, slack_of(plan), strict=True):
            key = node.kind, node.name
            if (sums := of.get(key)) is None:
                sums = of[key] = _Sums([], [], 0)
            sums.work += node.end - node.start
            if slack < spare.get(key, _NEVER):
                spare[key] = slack
        for key, least in spare.items():
            of[key].slack.append(least)
        for key, took in here.items():
            of[key].on_path.append(took)

    def result(self) -> CriticalPath:
        """What they come to."""
        took = self._took
        if not took:
            return CriticalPath(0, 0.0, 0.0, 0.0, [])
        total = sum(took)
        rows = [self._row(key, sums, total) for key, sums in self._of.items()]
        rows.sort(key=lambda row: (-row.share, -row.work_ms))
        return CriticalPath(len(took), ms(total / len(took)), ms(percentile(took, 50)), ms(percentile(took, 95)), rows)

    def _row(self, key: Key, sums: _Sums, total: int) -> PathRow:
        runs, here = len(self._took), sums.on_path
        return PathRow(
            *key,
            on_path=len(here) / runs,
            share=sum(here) / total if total else 0.0,
            mean_ms=ms(sum(here) / runs),
            p50_ms=ms(percentile(here, 50)) if here else 0.0,
            p95_ms=ms(percentile(here, 95)) if here else 0.0,
            work_ms=ms(sums.work / runs),
            slack_ms=ms(percentile(sums.slack, 50)),
        )


def critical_path(graphs: Iterable[Graph]) -> CriticalPath:
    """The critical path over these runs, whose graphs are as they were recorded."""
    paths = Paths()
    for graph in graphs:
        paths.add(schedule(graph))
    return paths.result()


class _Sums(msgspec.Struct, gc=False):
    """Of one kind of work: its times on the path and its least slacks, a run each; and all of it (ns)."""

    on_path: list[int]
    slack: list[int]
    work: int


_NEVER = 1 << 62


def _end(node: Node) -> int:
    return node.end
