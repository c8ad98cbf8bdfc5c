"""How long one reply may take: to its first token, between tokens, and as a whole."""

from __future__ import annotations

from hotloop.errors import ReplyTimeout
from hotloop.models.exchange import Exchange
from hotloop.units import NS_PER_S, ns


class Patience:
    """Looks after one exchange. Times are seconds, None is no limit; a reply that is not streamed has only a `total`.

    A silence (`stall`) counts from the last token on, but not while our own reader holds the reply up. `left` is what
    the run's deadline leaves, in nanoseconds, None without one.
    """

    __slots__ = ("_exchange", "_first_token", "_hurried", "_late", "_stall", "_total")

    def __init__(
        self, exchange: Exchange, *, total: float, first_token: float | None, stall: float | None, left: int | None
    ) -> None:
        self._exchange = exchange
        self._hurried = left is not None and left < total * NS_PER_S
        self._total = left / NS_PER_S if left is not None and self._hurried else total
        self._first_token = first_token
        self._stall = stall
        self._late = ""

    def first(self) -> float:
        """Seconds until the first look."""
        seconds = self._total
        for other in (self._first_token, self._stall):
            if other is not None and other < seconds:
                seconds = other
        return seconds

    def look(self) -> float:
        """Seconds until the next look; 0 when the reply has taken too long. One that is all there never has."""
        exchange = self._exchange
        if exchange.stream.done:  # and waits for its task, on an event loop that was held up
            return self.first()
        now = exchange.clock()
        waits = [(exchange.begun + ns(self._total) - now, "total")]
        if self._stall is not None:
            since = now if exchange.paused or not exchange.first else exchange.since  # now: at the earliest
            waits.append((since + ns(self._stall) - now, "stall"))
        if self._first_token is not None and not exchange.first:
            waits.append(((exchange.sent_at or now) + ns(self._first_token) - now, "first_token"))
        soonest, what = min(waits)
        self._late = what if soonest <= 0 else ""
        return max(soonest, 0) / NS_PER_S

    @property
    def ran_out(self) -> bool:
        """Whether it was the run that had no more time."""
        return self._late == "total" and self._hurried

    def error(self) -> ReplyTimeout:
        """What to raise when the time is over."""
        if self._late == "first_token":
            return ReplyTimeout(f"The service sent nothing within {self._first_token:g} s.")
        if self._late == "stall":
            tokens = self._exchange.stream.tokens
            after = "1 token" if tokens == 1 else f"{tokens:,} tokens"
            return ReplyTimeout(f"The reply stopped after {after}: nothing came for {self._stall:g} s.")
        whose = ", which was all that the run's budget had left" if self._hurried else ""
        return ReplyTimeout(f"The reply was not complete within {self._total:g} s{whose}.")
