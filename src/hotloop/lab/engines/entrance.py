"""The way into an engine: slots, the queue before them, and what a request has to do before its first token."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from random import Random

from hotloop.lab.engines.prefixcache import PrefixCache
from hotloop.lab.engines.work import Work
from hotloop.lab.profiles import Profile
from hotloop.units import NS_PER_MS

Begin = Callable[[Work, int], None]


class Entrance:
    """Lets work in, first come first served, and hands it to `begin` with its front and prefill worked out."""

    def __init__(self, profile: Profile, seed: int, begin: Begin) -> None:
        self._profile = profile
        self._begin = begin
        self._random = Random(f"{seed} front")
        self._slots = math.inf if profile.slots is None else profile.slots
        self._places = math.inf if profile.queue is None else profile.queue
        self._running = 0
        self._waiting: deque[Work] = deque()
        self._cache = PrefixCache(profile.cache_block, profile.cache_expiry, profile.cache_tokens)

    def arrive(self, work: Work, at: int) -> None:
        """Let work in, keep it waiting, or refuse it."""
        work.arrived = at
        if work.refused:
            return
        if self._running < self._slots:
            self._admit(work, at)
        elif len(self._waiting) < self._places:
            self._waiting.append(work)
        else:
            work.refused = True

    def leave(self, work: Work, at: int) -> None:
        """Work was given up, wherever it was."""
        work.gone = True
        if work.admitted:
            self.release(at)
        elif work in self._waiting:
            self._waiting.remove(work)

    def release(self, at: int) -> None:
        """A slot has become free."""
        self._running -= 1
        if self._waiting:
            self._admit(self._waiting.popleft(), at)

    def read(self, work: Work, at: int) -> None:
        """The prompt has been read: its prefix is known from now on."""
        self._cache.add(work.prompt.blocks, at)

    def _admit(self, work: Work, at: int) -> None:
        profile = self._profile
        work.admitted = at
        work.cached = min(self._cache.find(work.prompt.blocks, at), work.prompt.tokens)
        front = profile.base_ms + profile.wait_ms.at(self._running)
        if profile.queue_sigma:
            front *= self._random.lognormvariate(0.0, profile.queue_sigma)
        work.prefill = round(profile.per_prompt_token_ms * (work.prompt.tokens - work.cached) * NS_PER_MS)
        work.front = round(front * NS_PER_MS)
        work.front += round((work.front + work.prefill) * (work.slowdown - 1.0))
        self._running += 1
        self._begin(work, at)
