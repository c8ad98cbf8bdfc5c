"""What an engine has to do, earliest first."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count

from hotloop.lab.engines.work import Work

Action = Callable[[Work, int], None]


class Agenda:
    """Actions on works, each with its moment; those of one moment come in the order in which they were put down."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, Action, Work]] = []
        self._order = count()

    def put(self, moment: int, action: Action, work: Work) -> None:
        """Do this to a work at that moment."""
        heappush(self._entries, (moment, next(self._order), action, work))

    def drop(self, work: Work) -> None:
        """Do nothing more to it."""
        self._entries = [entry for entry in self._entries if entry[-1] is not work]
        heapify(self._entries)

    def due(self) -> int | None:
        """The moment of the first action; None if there is none."""
        return self._entries[0][0] if self._entries else None

    def act(self) -> None:
        """Do what comes first."""
        moment, _, action, work = heappop(self._entries)
        action(work, moment)
