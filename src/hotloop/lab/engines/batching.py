"""GPU-style: continuous batching, in which all replies decode in common steps and prefills take turns between them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from random import Random

from hotloop.lab.engines.agenda import Agenda
from hotloop.lab.engines.entrance import Entrance
from hotloop.lab.engines.work import Work
from hotloop.lab.profiles import Profile
from hotloop.units import NS_PER_MS

_NEVER = 1 << 62


class Batching:
    """An `Engine` whose replies share its time; see `hotloop.lab.profiles`."""

    def __init__(self, profile: Profile, seed: int = 0) -> None:
        self._profile = profile
        self._entrance = Entrance(profile, seed, self._begin)
        self._rtt = round(profile.rtt_ms * NS_PER_MS)
        self._random = Random(f"{seed} decode")
        self._agenda = Agenda()
        self._prompts: deque[Work] = deque()  # to be read, the first of them just now
        self._step = _Step(1.0 - profile.interference)
        self._decoding: list[Work] = []
        self._joining: list[Work] = []
        self._told: list[Work] = []

    def arrive(self, work: Work, now: int) -> None:
        """See `Engine`."""
        self._agenda.put(now + self._rtt, self._arrived, work)

    def leave(self, work: Work, now: int) -> None:
        """See `Engine`. A prompt that is being read is read to its end."""
        if work.gone or work.made >= work.tokens:
            return
        if work not in self._prompts:
            self._agenda.drop(work)
        self._entrance.leave(work, now)
        for batch in (self._decoding, self._joining):
            if work in batch:
                batch.remove(work)
        if not self._decoding:
            self._decoding, self._joining = self._joining, []
            self._begin_step(now)

    def next(self) -> int | None:
        """See `Engine`."""
        moments = [moment for moment in (self._agenda.due(), self._step.end) if moment is not None]
        return min(moments, default=None)

    def advance(self, now: int) -> Sequence[Work]:
        """See `Engine`."""
        agenda, self._told = self._agenda, []
        while (moment := self.next()) is not None and moment <= now:
            if agenda.due() == moment:
                agenda.act()
            else:
                self._end_step(moment)
        return self._told

    def _arrived(self, work: Work, at: int) -> None:
        self._entrance.arrive(work, at)
        if work.refused:
            self._told.append(work)

    def _begin(self, work: Work, at: int) -> None:
        self._agenda.put(at + work.front, self._ready, work)

    def _ready(self, work: Work, at: int) -> None:
        """The prompt can be read as soon as its turn comes."""
        self._prompts.append(work)
        if len(self._prompts) == 1:
            self._read(work, at)

    def _read(self, work: Work, at: int) -> None:
        self._step.slow(at)
        self._agenda.put(at + work.prefill, self._first, work)

    def _first(self, work: Work, at: int) -> None:
        """The prompt has been read, and the first token is there."""
        self._prompts.popleft()
        self._step.free(at)
        self._entrance.read(work, at)
        if not work.gone:
            work.first = at
            self._make([work], at)
            self._join(work, at)
        while self._prompts and self._prompts[0].gone:
            self._prompts.popleft()
        if self._prompts:
            self._read(self._prompts[0], at)

    def _join(self, work: Work, at: int) -> None:
        """Decode it from the next step on, which is the one under way if that began this very moment."""
        if work.made == work.tokens:
            self._entrance.release(at)
        elif self._step.end is None or self._step.began == at:
            self._decoding.append(work)
            self._begin_step(at)
        else:
            self._joining.append(work)

    def _begin_step(self, at: int) -> None:
        if not self._decoding:
            self._step.end = None
            return
        length = self._profile.tpot_ms.at(len(self._decoding))
        if self._profile.decode_sigma:
            length *= self._random.lognormvariate(0.0, self._profile.decode_sigma)
        self._step.begin(at, round(length * NS_PER_MS))

    def _end_step(self, at: int) -> None:
        batch = self._decoding
        self._make(batch, at)
        self._decoding = [work for work in batch if work.made < work.tokens] + self._joining
        self._joining = []
        for _ in range(sum(work.made == work.tokens for work in batch)):
            self._entrance.release(at)
        self._begin_step(at)

    def _make(self, works: list[Work], at: int) -> None:
        for work in works:
            work.made += 1
            work.last = at
            work.due = work.due or at
        self._told += works


class _Step:
    """One decode step: it began at `began` and ends at `end` (None: none is under way), later if it is slowed."""

    def __init__(self, slow_speed: float) -> None:
        self.began = 0
        self.end: int | None = None
        self._slow_speed = slow_speed
        self._speed = 1.0
        self._left: float = 0  # of its length, at `_since`
        self._since = 0

    def begin(self, at: int, length: int) -> None:
        """It begins, and takes `length` unless it is slowed."""
        self.began = self._since = at
        self._left = length
        self._set_end()

    def slow(self, at: int) -> None:
        """A prefill begins."""
        self._set_speed(self._slow_speed, at)

    def free(self, at: int) -> None:
        """The prefill has ended."""
        self._set_speed(1.0, at)

    def _set_speed(self, speed: float, at: int) -> None:
        if self.end is not None:
            self._left -= (at - self._since) * self._speed
            self._since = at
        self._speed = speed
        if self.end is not None:
            self._set_end()

    def _set_end(self) -> None:
        self.end = self._since + math.ceil(self._left / self._speed) if self._speed else _NEVER
