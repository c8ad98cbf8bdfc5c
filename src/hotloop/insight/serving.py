"""How a service that a profile describes would answer the requests of many runs at once.

The same first-order model as the simulated services, without their tokens: between two events all replies that a GPU
decodes go on at the same rate, so that only beginnings and ends have to be worked out.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from heapq import heappop, heappush
from random import Random
from typing import Literal, NamedTuple, Protocol

import msgspec

from hotloop.insight.pieces import Ask
from hotloop.insight.schedule import Times
from hotloop.units import NS_PER_MS

_NEVER = math.inf


class ServiceCurve(Protocol):
    """Milliseconds that grow with a number of replies."""

    def at(self, replies: int, /) -> float:
        """The value for this many replies."""


class ServiceProfile(Protocol):
    """A service in numbers, as `hotloop.lab.profiles.Profile` has them; times in milliseconds."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> Literal["gpu", "lpu"]: ...
    @property
    def base_ms(self) -> float: ...
    @property
    def per_prompt_token_ms(self) -> float: ...
    @property
    def tpot_ms(self) -> ServiceCurve: ...
    @property
    def wait_ms(self) -> ServiceCurve: ...
    @property
    def interference(self) -> float: ...
    @property
    def slots(self) -> int | None: ...
    @property
    def queue_sigma(self) -> float: ...
    @property
    def decode_sigma(self) -> float: ...
    @property
    def cache_block(self) -> int: ...
    @property
    def granularity(self) -> Literal["token", "call", "burst"]: ...
    @property
    def rtt_ms(self) -> float: ...
    @property
    def source(self) -> str: ...
    @property
    def confidence(self) -> str: ...
    @property
    def fit_error(self) -> Mapping[str, float]: ...


class Place(msgspec.Struct, frozen=True, eq=False):
    """A service in the place of another. `others` is how many more replies always run there (None: the runs' own)."""

    profile: ServiceProfile
    others: int | None = None

    @property
    def shared(self) -> bool:
        """Whether the time of a request depends on those of other runs."""
        profile = self.profile
        crowded = profile.kind == "gpu" or profile.slots is not None or profile.wait_ms.at(1) != profile.wait_ms.at(0)
        return self.others is None and crowded

    def cached(self, ask: Ask) -> int:
        """How many of a prompt's tokens it has in its cache: whole blocks of what it has seen before."""
        block = self.profile.cache_block
        return min(ask.known, ask.prompt) // block * block if block else 0

    def alone(self, ask: Ask, draw: Random) -> Times:
        """The time of a request beside `others`, none if that is not said."""
        profile, others = self.profile, self.others or 0
        first = profile.rtt_ms + self.front(others, draw) + self.reading(ask)
        pace = profile.tpot_ms.at(others + 1) * self.jitter(draw)
        return Times(round(first * NS_PER_MS), round(max(ask.out - 1, 0) * pace * NS_PER_MS))

    def front(self, others: int, draw: Random) -> float:
        """What comes before a prompt is read (ms), beside so many others."""
        front = self.profile.base_ms + self.profile.wait_ms.at(others)
        return front * draw.lognormvariate(0.0, self.profile.queue_sigma) if self.profile.queue_sigma else front

    def reading(self, ask: Ask) -> float:
        """Reading a prompt (ms)."""
        return self.profile.per_prompt_token_ms * (ask.prompt - self.cached(ask))

    def jitter(self, draw: Random) -> float:
        """By how much a reply's pace differs: on an LPU each has its own, on a GPU steps differ, and replies hardly."""
        sigma = self.profile.decode_sigma
        if not sigma:
            return 1.0
        return draw.lognormvariate(0.0, sigma) if self.profile.kind == "lpu" else math.exp(sigma * sigma / 2)


class Served(NamedTuple):
    """A request that was answered: its number, and how long it took."""

    number: int
    times: Times


class _Reply(msgspec.Struct, eq=False):
    """A request at work; times in milliseconds."""

    number: int
    ask: Ask
    arrived: float
    first: float = 0.0


class Server:
    """One service at work for many runs; times in milliseconds of one clock. `draw` decides what is left to chance."""

    def __init__(self, place: Place, draw: Random) -> None:
        self._place = place
        self._profile = place.profile
        self._draw = draw
        self._running = 0
        self._waiting: deque[_Reply] = deque()
        self._agenda: list[tuple[float, int, int, _Reply]] = []  # when, in which order, what: see `_act`
        self._order = 0
        self._prompts: deque[_Reply] = deque()  # a GPU reads one after the other
        self._decoding: list[tuple[float, int, _Reply]] = []  # by the step after which each is complete
        self._step = 0.0  # steps that a GPU has made so far
        self._at = 0.0
        self._done: list[Served] = []

    def ask(self, number: int, ask: Ask, at: float) -> None:
        """A request comes."""
        self._put(at + self._profile.rtt_ms, _ARRIVED, _Reply(number, ask, at))

    def next(self) -> float:
        """When something happens next."""
        return min(self._agenda[0][0] if self._agenda else _NEVER, self._next_end())

    def advance(self) -> list[Served]:
        """Let that happen; the requests that were answered by it, at that moment."""
        end = self._next_end()
        if self._agenda and self._agenda[0][0] <= end:
            at, _, what, reply = heappop(self._agenda)
            self._go_on(at)
            self._act(what, reply)
        else:
            self._go_on(end)
            self._step, _, reply = heappop(self._decoding)
            self._complete(reply)
        done, self._done = self._done, []
        return done

    def _put(self, at: float, what: int, reply: _Reply) -> None:
        self._order += 1
        heappush(self._agenda, (at, self._order, what, reply))

    def _rate(self) -> float:
        """Steps of a GPU in a millisecond."""
        if not self._decoding:
            return 0.0
        speed = 1.0 - self._profile.interference if self._prompts else 1.0
        return speed / (self._profile.tpot_ms.at(len(self._decoding)) * self._place.jitter(self._draw))

    def _next_end(self) -> float:
        rate = self._rate()
        return self._at + (self._decoding[0][0] - self._step) / rate if rate else _NEVER

    def _go_on(self, at: float) -> None:
        self._step += (at - self._at) * self._rate()
        self._at = at

    def _act(self, what: int, reply: _Reply) -> None:
        if what == _ARRIVED:
            if self._profile.slots is None or self._running < self._profile.slots:
                self._admit(reply)
            else:
                self._waiting.append(reply)
        elif what == _READY:
            self._prompts.append(reply)
            if len(self._prompts) == 1:
                self._read(reply)
        elif what == _FIRST:
            self._first(reply)
        else:
            self._complete(reply)

    def _admit(self, reply: _Reply) -> None:
        front = self._place.front(self._running, self._draw)
        self._running += 1
        if self._profile.kind == "gpu":
            self._put(self._at + front, _READY, reply)
        else:
            self._put(self._at + front + self._place.reading(reply.ask), _FIRST, reply)

    def _read(self, reply: _Reply) -> None:
        self._put(self._at + self._place.reading(reply.ask), _FIRST, reply)

    def _first(self, reply: _Reply) -> None:
        reply.first = self._at
        left = max(reply.ask.out - 1, 0)
        if self._profile.kind == "lpu":
            pace = self._profile.tpot_ms.at(1) * self._place.jitter(self._draw)
            self._put(self._at + left * pace, _LAST, reply)
            return
        self._prompts.popleft()
        if self._prompts:
            self._read(self._prompts[0])
        if left:  # it joins with the next step
            begun = math.ceil(self._step - _ROUNDING) if self._decoding else self._step
            self._order += 1
            heappush(self._decoding, (begun + left, self._order, reply))
        else:
            self._complete(reply)

    def _complete(self, reply: _Reply) -> None:
        prefill, decode = reply.first - reply.arrived, self._at - reply.first
        self._done.append(Served(reply.number, Times(round(prefill * NS_PER_MS), round(decode * NS_PER_MS))))
        self._running -= 1
        if self._waiting:
            self._admit(self._waiting.popleft())


_ARRIVED, _READY, _FIRST, _LAST = range(4)
_ROUNDING = 1e-6  # of a step
