"""How long one reply may take: to its first token, between tokens, and as a whole."""

from __future__ import annotations

from hotloop.errors import ReplyTimeout
from hotloop.models.exchange import Exchange
from hotloop.models.policy.policy import Policy
from hotloop.units import NS_PER_S, ns


class Patience:
    """Looks after one exchange. `left` is what the run's deadline leaves, in nanoseconds, None without one.

    A silence counts from the last token on, but not while our own reader holds the reply up. A reply that is not
    `streamed` has only its total time. `stall` is the longest silence in seconds, None for any.
    """

    __slots__ = ("_exchange", "_late", "_left", "_policy", "_stall", "_streamed")

    def __init__(
        self, exchange: Exchange, policy: Policy, *, streamed: bool, stall: float | None, left: int | None
    ) -> None:
        self._exchange = exchange
        self._policy = policy
        self._streamed = streamed
        self._stall = stall
        self._left = left
        self._late = ""

    def first(self) -> float:
        """Seconds until the first look."""
        policy = self._policy
        seconds = policy.total if self._left is None else min(policy.total, self._left / NS_PER_S)
        for other in (policy.first_token, self._stall) if self._streamed else ():
            if other is not None and other < seconds:
                seconds = other
        return seconds

    def look(self) -> float:
        """Seconds until the next look; 0 when the reply has taken too long. One that is all there never has."""
        exchange, policy = self._exchange, self._policy
        if exchange.stream.done:  # and waits for its task, on an event loop that was held up
            return self.first()
        now = exchange.clock()
        total = ns(policy.total) if self._left is None else min(ns(policy.total), self._left)
        waits = [(exchange.begun + total - now, "total")]
        if self._streamed and self._stall is not None:
            since = now if exchange.paused or not exchange.first else exchange.since  # now: at the earliest
            waits.append((since + ns(self._stall) - now, "stall"))
        if self._streamed and not exchange.first and policy.first_token is not None:
            waits.append(((exchange.sent_at or now) + ns(policy.first_token) - now, "first_token"))
        soonest, what = min(waits)
        self._late = what if soonest <= 0 else ""
        return max(soonest, 0) / NS_PER_S

    @property
    def ran_out(self) -> bool:
        """Whether it was the run that had no more time."""
        return self._late == "total" and self._is_cut_short

    @property
    def _is_cut_short(self) -> bool:
        return self._left is not None and self._left < ns(self._policy.total)

    def error(self) -> ReplyTimeout:
        """What to raise when the time is over."""
        if self._late == "first_token":
            return ReplyTimeout(f"The service sent nothing within {self._policy.first_token:g} s.")
        if self._late == "stall":
            tokens = self._exchange.stream.tokens
            after = "1 token" if tokens == 1 else f"{tokens:,} tokens"
            return ReplyTimeout(f"The reply stopped after {after}: nothing came for {self._stall:g} s.")
        if not self._is_cut_short:
            return ReplyTimeout(f"The reply was not complete within {self._policy.total:g} s.")
        whole = f"The reply was not complete within {(self._left or 0) / NS_PER_S:g} s"
        return ReplyTimeout(f"{whole}, which was all that the run's budget had left.")
