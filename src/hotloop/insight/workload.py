"""Many recorded runs as one thing to ask about: their graphs in order of time, and what they show of services."""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import cached_property

from hotloop.insight.graph import Graph
from hotloop.insight.learned import Learned, Where, learn
from hotloop.insight.pieces import Ask
from hotloop.insight.prefixes import agent_of, fronts_of, with_known
from hotloop.trace.record import TraceRecord

SAMPLE = 400
"""How many runs are scheduled anew for one question, at most."""

_STRETCHES = 4
_LEAD = 0.25  # of a stretch: runs that are there before those that count


class Workload:
    """Runs that ended well, the earliest first; `left_out` is how many others there were."""

    def __init__(self, graphs: Iterable[Graph], left_out: int = 0) -> None:
        in_time = sorted(graphs, key=lambda graph: graph.started)
        self._fronts = fronts_of(in_time)
        self.graphs = with_known(in_time, self._fronts)
        self.left_out = left_out

    @staticmethod
    def of(records: Iterable[TraceRecord]) -> Workload:
        """The runs of these records."""
        graphs, left_out = [], 0
        for record in records:
            if record.outcome == "ok":
                graphs.append(Graph.of(record))
            else:
                left_out += 1
        return Workload(graphs, left_out)

    @cached_property
    def services(self) -> dict[Where, Learned]:
        """What the runs show of each model that answered."""
        return learn(self.graphs)

    def service_of(self, ask: Ask) -> Learned | None:
        """What is known of whoever answered a request."""
        return self.services.get((ask.service, ask.model))

    def front(self, graph: Graph, ask: Ask) -> int:
        """About how many tokens all prompts of this run's agent begin with."""
        return self._fronts.get(agent_of(graph, ask), 0)

    @cached_property
    def sample(self) -> list[int]:
        """The places of the runs that are asked about: all, or some that were chosen at random, once."""
        everyone = range(len(self.graphs))
        return sorted(random.Random(0).sample(everyone, SAMPLE)) if len(everyone) > SAMPLE else list(everyone)

    @cached_property
    def stretches(self) -> list[tuple[range, int]]:
        """Runs in a row, for questions in which runs meet each other: all, or stretches that are spread over the time.

        The places of each stretch, and how many of its first runs are there only so that the others meet them.
        """
        count = len(self.graphs)
        if count <= SAMPLE:
            return [(range(count), 0)]
        length = SAMPLE // _STRETCHES
        lead = int(length * _LEAD)
        starts = [place * (count - length) // (_STRETCHES - 1) for place in range(_STRETCHES)]
        return [(range(max(start - lead, 0), start + length), start - max(start - lead, 0)) for start in starts]
