"""LPU-style: a pipeline with stream slots, in which every reply has its own fixed rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from random import Random

from hotloop.lab.engines.entrance import Entrance
from hotloop.lab.engines.work import Work
from hotloop.lab.profiles import Profile
from hotloop.units import NS_PER_MS

Action = Callable[[Work, int, int], None]


class Pipeline:
    """An `Engine` whose replies do not disturb each other; see `hotloop.lab.profiles`.

    Tokens that are overdue are made together with the one that is due.
    """

    def __init__(self, profile: Profile, seed: int = 0) -> None:
        self._entrance = Entrance(profile, seed, self._begin)
        self._rtt = round(profile.rtt_ms * NS_PER_MS)
        self._gap = round(profile.tpot_ms.a * NS_PER_MS)
        self._sigma = profile.decode_sigma
        self._random = Random(f"{seed} decode")
        self._agenda: list[tuple[int, int, Action, Work]] = []
        self._order = count()
        self._told: list[Work] = []

    def arrive(self, work: Work, now: int) -> None:
        """See `Engine`."""
        self._at(now + self._rtt, self._arrived, work)

    def leave(self, work: Work, now: int) -> None:
        """See `Engine`."""
        if not work.gone and work.made < work.tokens:
            self._agenda = [entry for entry in self._agenda if entry[-1] is not work]
            heapify(self._agenda)
            self._entrance.leave(work, now)

    def next(self) -> int | None:
        """See `Engine`."""
        return self._agenda[0][0] if self._agenda else None

    def advance(self, now: int) -> Sequence[Work]:
        """See `Engine`."""
        agenda, self._told = self._agenda, []
        while agenda and agenda[0][0] <= now:
            at, _, action, work = heappop(agenda)
            action(work, at, now)
        return self._told

    def _at(self, moment: int, action: Action, work: Work) -> None:
        heappush(self._agenda, (moment, next(self._order), action, work))

    def _arrived(self, work: Work, at: int, now: int) -> None:
        self._entrance.arrive(work, at)
        if work.refused:
            self._told.append(work)

    def _begin(self, work: Work, at: int) -> None:
        jitter = self._random.lognormvariate(0.0, self._sigma) if self._sigma else 1.0
        work.gap = round(self._gap * jitter)
        work.first = at + work.front + work.prefill
        self._at(work.first, self._read, work)

    def _read(self, work: Work, at: int, now: int) -> None:
        """The prompt has been read, and the first token is there."""
        self._entrance.read(work, at)
        if work.streamed:
            self._make(work, at, now)
        else:
            self._at(work.first + (work.tokens - 1) * work.gap, self._finish, work)

    def _make(self, work: Work, at: int, now: int) -> None:
        """Make the tokens of one reply that are due."""
        left = work.tokens - work.made
        due = min(left, 1 + (now - at) // work.gap) if work.gap else left
        work.made += due
        work.due = work.due or at
        work.last = at + (due - 1) * work.gap
        self._told.append(work)
        if due == left:
            self._entrance.release(work.last)
        else:
            self._at(work.last + work.gap, self._make, work)

    def _finish(self, work: Work, at: int, now: int) -> None:
        """Make a reply whose end alone is of interest."""
        work.made = work.tokens
        work.due = work.last = at
        self._told.append(work)
        self._entrance.release(at)
