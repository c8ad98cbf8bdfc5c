"""When runs begin, if those before them take another time: when they began, or so long after an answer as they did."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from hotloop.insight.graph import Graph
from hotloop.units import NS_PER_S

_AT_ONCE = 0.002  # seconds after an answer
_CLOCKS = 0.0005  # seconds by which the clock of the starts and that of the times may differ
_MOSTLY = 0.8  # of the runs

Following = dict[int, tuple[int, float]]
"""By the place of a run that of the one which follows its answer, and how many seconds later that begins."""


def following(graphs: Sequence[Graph]) -> Following:
    """Which of these runs, in the order of their starts, begin because another one was answered.

    Those of one session that followed each other do. Of the others they do if nearly each began the moment another one
    had ended: then somebody asks again as soon as he is answered, as a loop, an evaluation and most load tests do.
    """
    found = _in_sessions(graphs)
    strangers = [place for place, graph in enumerate(graphs) if not graph.session]
    at_once = _at_once(graphs, strangers)
    if len(at_once) >= _MOSTLY * len(strangers):
        found |= at_once
    return found


def _in_sessions(graphs: Sequence[Graph]) -> Following:
    newest: dict[str, int] = {}
    found: Following = {}
    for place, graph in enumerate(graphs):
        if not graph.session:
            continue
        if (before := newest.get(graph.session)) is not None:
            pause = graph.started - _ended(graphs[before])
            if pause >= 0:
                found[before] = place, pause
        newest[graph.session] = place
    return found


def _at_once(graphs: Sequence[Graph], places: Sequence[int]) -> Following:
    """The runs that began the moment another one had ended, each after another one."""
    ended = sorted((_ended(graphs[place]), place) for place in places)
    ends = [end for end, _ in ended]
    taken: set[int] = set()
    found: Following = {}
    for place in places:
        started = graphs[place].started
        at = bisect_left(ends, started - _AT_ONCE)
        while at < len(ends) and ends[at] <= started + _CLOCKS:
            before = ended[at][1]
            if before not in taken and before != place:
                taken.add(before)
                found[before] = place, max(started - ends[at], 0.0)
                break
            at += 1
    return found


def _ended(graph: Graph) -> float:
    return graph.started + graph.took / NS_PER_S
