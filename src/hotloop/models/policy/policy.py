"""How a service is treated, as settings."""

from __future__ import annotations

from typing import Literal

import msgspec

from hotloop.fields import Count, Natural, Seconds, SecondsOrZero, Share, SomeShare, check_fields, require


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """When a service is left alone for a while.

    Of the last `window` requests (at least `at_least` of them) a share of `failure_rate` failed, or a share of
    `slow_rate` took longer than `slow_call` seconds to their first token (None: slowness does not count). After `cool`
    seconds `probes` requests may go through; if all succeed the service is back, and the first that fails closes it
    off again. Raises ConfigError for what cannot be.
    """

    failure_rate: SomeShare = 0.5
    slow_call: Seconds | None = None
    slow_rate: SomeShare = 0.8
    window: Count = 20
    at_least: Count = 10
    cool: Seconds = 10.0
    probes: Count = 2

    def __post_init__(self) -> None:
        check_fields(Breaker, msgspec.structs.asdict(self), "Breaker")
        fits = self.at_least <= self.window
        require(fits, f"The breaker's at_least is {self.at_least}; give at most its window, which is {self.window}.")


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
    or for the service's rate limits, which are learned from its headers. Raises ConfigError for what cannot be.
    """

    connect: Seconds = 5.0
    first_token: Seconds | None = None
    stall: Seconds | Literal["learned"] | None = "learned"
    total: Seconds = 60.0
    retries: Natural = 2
    backoff: SecondsOrZero = 0.2
    backoff_limit: SecondsOrZero = 8.0
    jitter: Share = 0.5
    hedge: bool = False
    hedge_share: Share = 0.05
    breaker: Breaker | None = Breaker()
    max_concurrent: Count | None = None
    max_queued: Natural = 1000

    def __post_init__(self) -> None:
        check_fields(Policy, msgspec.structs.asdict(self), "Policy")
