"""How a service is treated, as settings."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from hotloop.errors import ConfigError


def _require(condition: bool, name: str, value: object, wanted: str) -> None:
    if not condition:
        raise ConfigError(f"policy.{name} is {value!r}; give {wanted}.")


def _is_number(value: object, least: float, most: float = math.inf) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most


def _require_seconds(name: str, value: object) -> None:
    _require(_is_number(value, 1e-9, 1e9), name, value, "seconds, more than 0")


def _require_share(name: str, value: object) -> None:
    _require(_is_number(value, 0, 1), name, value, "a share from 0 to 1")


def _require_count(name: str, value: object, least: int) -> None:
    _require(_is_number(value, least) and isinstance(value, int), name, value, f"a whole number from {least} on")


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """When a service is left alone for a while.

    Of the last `window` requests (at least `at_least` of them) a share of `failure_rate` failed, or a share of
    `slow_rate` took longer than `slow_call` seconds to their first token (None: slowness does not count). After `cool`
    seconds `probes` requests may go through; if all succeed the service is back, and the first that fails closes it
    off again.
    """

    failure_rate: float = 0.5
    slow_call: float | None = None
    slow_rate: float = 0.8
    window: int = 20
    at_least: int = 10
    cool: float = 10.0
    probes: int = 2

    def __post_init__(self) -> None:
        for name in ("failure_rate", "slow_rate"):
            _require(
                _is_number(getattr(self, name), 1e-9, 1), f"breaker.{name}", getattr(self, name), "a share up to 1"
            )
        for name in ("at_least", "probes", "window"):
            _require_count(f"breaker.{name}", getattr(self, name), 1)
        _require(self.at_least <= self.window, "breaker.at_least", self.at_least, "a number up to the window")
        _require_seconds("breaker.cool", self.cool)
        if self.slow_call is not None:
            _require_seconds("breaker.slow_call", self.slow_call)


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How one service (a model at an endpoint, with one key) is treated by all agents of a process; times are seconds.

    `connect` is for opening a connection, `first_token` from sending a request to its first token (None: no limit of
    its own), `stall` the longest silence within a reply ("learned": ten times what the service's own replies show, at
    least 2 s and at most 30 s), `total` for a whole reply. All of them end with the run's deadline. These three are
    for streamed replies; one that is not streamed has only `total`.

    A request that failed in a way that may pass is sent up to `retries` more times, after `backoff` seconds that double
    up to `backoff_limit`, of which a share of `jitter` is left to chance; what the service asks for is a floor.

    `hedge` sends a second request once the first has waited for its first token as long as 95 % of such requests do,
    and takes whichever answers first. It does so for at most a share of `hedge_share` of all requests, and never while
    the service as a whole is slow.

    At most `max_concurrent` requests are under way at once (None: any number); up to `max_queued` more wait for a place
    or for the service's rate limits, which are learned from its headers.
    """

    connect: float = 5.0
    first_token: float | None = None
    stall: float | Literal["learned"] | None = "learned"
    total: float = 60.0
    retries: int = 2
    backoff: float = 0.2
    backoff_limit: float = 8.0
    jitter: float = 0.5
    hedge: bool = False
    hedge_share: float = 0.05
    breaker: Breaker | None = Breaker()
    max_concurrent: int | None = None
    max_queued: int = 1000

    def __post_init__(self) -> None:
        for name in ("connect", "total"):
            _require_seconds(name, getattr(self, name))
        if self.first_token is not None:
            _require_seconds("first_token", self.first_token)
        if self.stall not in (None, "learned"):
            _require_seconds("stall", self.stall)
        for name in ("backoff", "backoff_limit"):
            _require(_is_number(getattr(self, name), 0, 1e9), name, getattr(self, name), "seconds, 0 or more")
        for name in ("jitter", "hedge_share"):
            _require_share(name, getattr(self, name))
        for name in ("retries", "max_queued"):
            _require_count(name, getattr(self, name), 0)
        if self.max_concurrent is not None:
            _require_count("max_concurrent", self.max_concurrent, 1)
        _require(isinstance(self.hedge, bool), "hedge", self.hedge, "True or False")
        _require(
            self.breaker is None or isinstance(self.breaker, Breaker), "breaker", self.breaker, "a Breaker or None"
        )
