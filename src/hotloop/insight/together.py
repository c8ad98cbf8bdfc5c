"""Many runs scheduled on one line of time, where they meet at the services that answer them."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from random import Random

from hotloop.insight.arrivals import following
from hotloop.insight.graph import Graph
from hotloop.insight.schedule import Schedule, Times, Walk, Wanted, walk
from hotloop.insight.serving import Place, Server
from hotloop.units import NS_PER_MS

_MS_PER_S = 1000.0


def schedule_all(graphs: Sequence[Graph], draw: Random) -> list[Schedule]:
    """The schedules of these runs, in the order of their starts; `draw` decides what services leave to chance.

    Runs begin when they began, or as long after the answer to another one as they did; see `following`.
    """
    line = _Line(graphs, draw)
    line.run()
    return line.schedules


class _Line:
    """The runs on their way; times in milliseconds from the start of the first."""

    def __init__(self, graphs: Sequence[Graph], draw: Random) -> None:
        self.schedules = [Schedule([], 0, ())] * len(graphs)
        self._draw = draw
        self._walks: list[Walk] = [walk(graph) for graph in graphs]
        self._wanted: list[Wanted | None] = [None] * len(graphs)
        self._servers: dict[Place, Server] = {}
        self._agenda: list[tuple[float, int]] = []  # when a run goes on
        start = min((graph.started for graph in graphs), default=0.0)
        self._begun = [(graph.started - start) * _MS_PER_S for graph in graphs]
        self._next = following(graphs)
        behind = {place for place, _ in self._next.values()}
        for place, begun in enumerate(self._begun):
            if place not in behind:
                heappush(self._agenda, (begun, place))

    def run(self) -> None:
        """Take all runs to their ends."""
        while True:
            server = min(self._servers.values(), key=Server.next, default=None)
            due = server.next() if server is not None else float("inf")
            if self._agenda and self._agenda[0][0] <= due:
                at, place = heappop(self._agenda)
                if (wanted := self._wanted[place]) is None:
                    self._go_on(place, None)
                else:
                    self._ask(place, wanted, at)
            elif server is not None and due < float("inf"):
                for served in server.advance():
                    self._go_on(served.number, served.times)
            else:
                return

    def _ask(self, place: int, wanted: Wanted, at: float) -> None:
        if wanted.by not in self._servers:
            self._servers[wanted.by] = Server(wanted.by, self._draw)
        self._servers[wanted.by].ask(place, wanted.ask, at)

    def _go_on(self, place: int, times: Times | None) -> None:
        """Take a run to its next request that depends on others, or to its end."""
        steps = self._walks[place]
        try:
            wanted = next(steps) if times is None else steps.send(times)
            while not wanted.by.shared:
                wanted = steps.send(wanted.by.alone(wanted.ask, self._draw))
        except StopIteration as done:
            self._ended(place, done.value)
            return
        self._wanted[place] = wanted
        heappush(self._agenda, (self._begun[place] + wanted.at / NS_PER_MS, place))

    def _ended(self, place: int, plan: Schedule) -> None:
        self.schedules[place] = plan
        if place in self._next:
            other, pause = self._next[place]
            self._begun[other] = self._begun[place] + plan.end / NS_PER_MS + pause * _MS_PER_S
            heappush(self._agenda, (self._begun[other], other))
