"""How long one reply may take: to its first token, between tokens, and as a whole."""

from __future__ import annotations

from hotloop.errors import ReplyTimeout
from hotloop.models.exchange import Exchange
from hotloop.units import NS_PER_S, Clock, ns


class Patience:
    """Looks after one exchange: `look` says when to look again, 0 once its time is over. Times are nanoseconds.

    A silence counts from the last token on, unless it is our own reader who holds the reply up. `left` is what the
    run's deadline leaves, None without one.
    """

    __slots__ = ("_clock", "_exchange", "_first_token", "_ours", "_stall", "_total", "_why")

    def __init__(
        self,
        exchange: Exchange,
        clock: Clock,
        *,
        total: float,
        first_token: float | None,
        stall: float | None,
        left: int | None,
    ) -> None:
        self._exchange = exchange
        self._clock = clock
        self._ours = left is None or ns(total) <= left
        self._total = ns(total) if self._ours or left is None else left
        self._first_token = None if first_token is None else ns(first_token)
        self._stall = None if stall is None else ns(stall)
        self._why = ""

    def look(self) -> float:
        """Seconds until the next look; 0 when the reply has taken too long."""
        now, exchange = self._clock(), self._exchange
        waits = [(exchange.begun + self._total - now, "total")]
        if exchange.first:
            if self._stall is not None:
                waits.append((self._silent_until(now, self._stall) - now, "stall"))
        elif self._first_token is not None:
            waits.append((exchange.begun + self._first_token - now, "first_token"))
        soonest, self._why = min(waits)
        return max(soonest, 0) / NS_PER_S

    def _silent_until(self, now: int, stall: int) -> int:
        throttle = self._exchange.throttle
        held = throttle is not None and throttle.paused
        return (now if held else self._exchange.last) + stall

    def error(self) -> ReplyTimeout:
        """What to raise when the time is over."""
        if self._why == "first_token":
            return ReplyTimeout(f"The service sent nothing within {_seconds(self._first_token)} s.")
        if self._why == "stall":
            tokens = self._exchange.stream.tokens
            return ReplyTimeout(
                f"The reply stopped after {tokens:,} tokens: nothing came for {_seconds(self._stall)} s."
            )
        whose = "" if self._ours else ", which was all that the run's budget had left"
        return ReplyTimeout(f"The reply was not complete within {_seconds(self._total)} s{whose}.")


def _seconds(nanoseconds: int | None) -> str:
    return f"{(nanoseconds or 0) / NS_PER_S:g}"
