"""LPU-style: a pipeline with stream slots, in which every reply has its own fixed rate."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from hotloop.lab.engines.agenda import Agenda
from hotloop.lab.engines.entrance import Entrance
from hotloop.lab.engines.work import Work
from hotloop.lab.profiles import Profile
from hotloop.units import NS_PER_MS


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
        self._agenda = Agenda()
        self._now = 0
        self._told: list[Work] = []

    def arrive(self, work: Work, now: int) -> None:
        """See `Engine`."""
        self._agenda.put(now + self._rtt, self._arrived, work)

    def leave(self, work: Work, now: int) -> None:
        """See `Engine`."""
        if not work.gone and work.made < work.tokens:
            self._agenda.drop(work)
            self._entrance.leave(work, now)

    def next(self) -> int | None:
        """See `Engine`."""
        return self._agenda.due()

    def advance(self, now: int) -> Sequence[Work]:
        """See `Engine`."""
        agenda, self._now, self._told = self._agenda, now, []
        while (due := agenda.due()) is not None and due <= now:
            agenda.act()
        return self._told

    def _arrived(self, work: Work, at: int) -> None:
        self._entrance.arrive(work, at)
        if work.refused:
            self._told.append(work)

    def _begin(self, work: Work, at: int) -> None:
        jitter = self._random.lognormvariate(0.0, self._sigma) if self._sigma else 1.0
        work.gap = round(self._gap * jitter)
        work.first = at + work.front + work.prefill
        self._agenda.put(work.first, self._read, work)

    def _read(self, work: Work, at: int) -> None:
        """The prompt has been read, and the first token is there."""
        self._entrance.read(work, at)
        if work.streamed:
            self._make(work, at)
        else:
            self._agenda.put(work.first + (work.tokens - 1) * work.gap, self._finish, work)

    def _make(self, work: Work, at: int) -> None:
        """Make the tokens of one reply that are due."""
        left = work.tokens - work.made
        due = min(left, 1 + (self._now - at) // work.gap) if work.gap else left
        work.made += due
        work.due = work.due or at
        work.last = at + (due - 1) * work.gap
        self._told.append(work)
        if due == left:
            self._entrance.release(work.last)
        else:
            self._agenda.put(work.last + work.gap, self._make, work)

    def _finish(self, work: Work, at: int) -> None:
        """Make a reply whose end alone is of interest."""
        work.made = work.tokens
        work.due = work.last = at
        self._told.append(work)
        self._entrance.release(at)
