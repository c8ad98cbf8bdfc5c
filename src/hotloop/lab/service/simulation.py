"""A service without a wire: which reply a request gets, and when which token of it is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

from msgspec.structs import replace

from hotloop.errors import ConfigError
from hotloop.lab.engines.batching import Batching
from hotloop.lab.engines.driver import Driver
from hotloop.lab.engines.pipeline import Pipeline
from hotloop.lab.engines.prefixcache import blocks_of
from hotloop.lab.engines.work import Work, WorkPrompt
from hotloop.lab.profilefile import load_profile
from hotloop.lab.profiles import Curve, Profile
from hotloop.lab.render import prompt_tokens
from hotloop.lab.script import Replies, Request, as_reply, decode_request, per_conversation
from hotloop.lab.service.contextlimit import too_long
from hotloop.lab.service.emit import Emitter, Meter, Sink, Stats
from hotloop.lab.service.misbehaving import Mix
from hotloop.lab.service.outgoing import Outgoing, error, outgoing
from hotloop.lab.service.ratelimits import ServiceLimits
from hotloop.units import clock

_BUSY = "All slots are taken and the queue is full. Try again later."


class SimulationOptions(TypedDict, total=False):
    """What a simulated service is like; see `hotloop.lab.sim.SimulatedService`."""

    profile: str | Path | Profile | None
    ttft: float
    tpot: float
    seed: int
    faults: str
    rpm: int | None
    tpm: int | None
    context_limit: int | None


class Simulation:
    """Takes requests, and delivers the reply to each as a service with these options would."""

    def __init__(
        self,
        replies: Replies,
        *,
        profile: str | Path | Profile | None = None,
        ttft: float = 0.0,
        tpot: float = 0.0,
        seed: int = 0,
        faults: str = "",
        rpm: int | None = None,
        tpm: int | None = None,
        context_limit: int | None = None,
    ) -> None:
        self.profile = _profile(profile, ttft, tpot)
        if context_limit is not None:
            self.profile = replace(self.profile, context_limit=context_limit)
        self._answer = replies if callable(replies) else per_conversation(replies)
        self._mix = Mix(faults, seed)
        self._limits = None if rpm is None and tpm is None else ServiceLimits(rpm, tpm)
        self._meter = Meter()
        self._driver = Driver((Batching if self.profile.kind == "gpu" else Pipeline)(self.profile, seed))
        self._busy = error(503, _BUSY, "server_error", "over_capacity")

    @property
    def stats(self) -> Stats:
        """What was done so far."""
        return self._meter.stats()

    def submit(self, body: bytes, sink: Sink) -> Callable[[], None]:
        """Take a request; returns what to call when nobody waits for the reply any longer.

        Raises InvalidRequest for what is no request, and whatever the script raises.
        """
        self._meter.asked()
        reply = self._reply(decode_request(body), body)
        emitter = Emitter(reply, self._busy, sink, self._meter)
        work = Work(
            reply.tokens,
            emitter,
            reply.prompt,
            streamed=bool(reply.pieces),
            refused=reply.refused,
            slowdown=reply.slowdown,
        )
        self._driver.submit(work)

        def leave() -> None:
            emitter.abandon()
            self._driver.leave(work)

        return leave

    def open(self) -> None:
        """Requests will come until `close`, all on the running loop: be ready for them."""
        self._driver.open()

    def close(self) -> None:
        """Deliver nothing more."""
        self._driver.close()

    def _reply(self, request: Request, body: bytes) -> Outgoing:
        """The reply, with everything that is wrong with it, or what there is in its place."""
        prompt = self._prompt(request, body)
        fault = self._mix.draw()
        if self._limits is not None and (refused := self._limits.refuse(prompt.tokens, clock()())):
            return refused
        if isinstance(fault, Outgoing):
            return fault
        limit = self.profile.context_limit
        if limit is not None and prompt.tokens >= limit:
            return too_long(self.profile.dialect, prompt.tokens, limit)
        reply = outgoing(as_reply(self._answer(request)), request, prompt, self.profile)
        if self._limits is not None:
            self._limits.spend(reply.tokens)
            reply = replace(reply, headers=(*reply.headers, *self._limits.headers(clock()())))
        return reply if fault is None or reply.apart else fault(reply)

    def _prompt(self, request: Request, body: bytes) -> WorkPrompt:
        block = self.profile.cache_block if request.get("cache_prompt") is not False else 0
        return WorkPrompt(prompt_tokens(body), blocks_of(request, block) if block else ())


def _profile(profile: str | Path | Profile | None, ttft: float, tpot: float) -> Profile:
    """The profile that is named, or that of a service which takes the same times, in seconds, for everything.

    Raises ConfigError for one that cannot be had, and if both are asked for.
    """
    if profile is None:
        return Profile(name="fixed", kind="lpu", base_ms=ttft * 1e3, per_prompt_token_ms=0.0, tpot_ms=Curve(tpot * 1e3))
    if ttft or tpot:
        raise ConfigError("A profile has its own times: leave ttft and tpot out, or the profile.")
    return load_profile(profile)
