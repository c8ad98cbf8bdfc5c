"""How a service is treated, as settings."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from hotloop.errors import ConfigError


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
            _require(0 < getattr(self, name) <= 1, f"breaker.{name}", getattr(self, name), "a share above 0, up to 1")
        _require(1 <= self.at_least <= self.window, "breaker.at_least", self.at_least, "a number from 1 to the window")
        _require(self.probes >= 1, "breaker.probes", self.probes, "a number from 1 on")
        for name in ("cool", "slow_call"):
            if (value := getattr(self, name)) is not None:
                _require_seconds(f"breaker.{name}", value)


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How one service (a model at an endpoint, with one key) is treated by all agents of the process; times are seconds.

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
        for name in ("connect", "total", "first_token", "stall"):
            value = getattr(self, name)
            if value is not None and value != "learned":
                _require_seconds(name, value)
        for name in ("backoff", "backoff_limit"):
            _require(0 <= getattr(self, name) < math.inf, name, getattr(self, name), "seconds, 0 or more")
        for name in ("jitter", "hedge_share"):
            _require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "a share from 0 to 1")
        _require(self.retries >= 0, "retries", self.retries, "a number from 0 on")
        _require(self.max_queued >= 0, "max_queued", self.max_queued, "a number from 0 on")
        if self.max_concurrent is not None:
            _require(self.max_concurrent >= 1, "max_concurrent", self.max_concurrent, "a number from 1 on")


def _require_seconds(name: str, value: float) -> None:
    _require(0 < value < math.inf, name, value, "seconds, more than 0")


def _require(condition: bool, name: str, value: object, wanted: str) -> None:
    if not condition:
        raise ConfigError(f"policy.{name} is {value!r}; give {wanted}.")
