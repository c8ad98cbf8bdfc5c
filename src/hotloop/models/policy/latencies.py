"""What a service has shown of its speed: when silence means that it is stuck, and when a second request pays."""

from __future__ import annotations

from collections import deque

from hotloop.units import NS_PER_S

_KEPT = 256  # newest values of each kind
_ENOUGH = 20  # values before they tell anything
_STALE = 16  # new values before they are put in order anew
_NEWEST = 10  # first tokens that tell how the service does just now
_SLOW = 2.0  # times what is usual
_STALL_GAPS, _STALL_LEAST, _STALL_MOST = 10, 2.0, 30.0  # times the longest usual gap; seconds
_HEDGES_AT_ONCE = 5.0


class Latencies:
    """Times of one service's replies, in nanoseconds, and how many second requests they allow: a share of all.

    `stall` is how many seconds of silence within a reply mean that it is stuck, and not just slow.

    Threads may share it; a value that two of them note in the same instant may be lost.
    """

    __slots__ = ("_first_tokens", "_gaps", "_hedges", "_ratios", "_share", "stall")

    def __init__(self, hedge_share: float) -> None:
        self._share = hedge_share
        self._hedges = 0.0
        self.stall = _STALL_MOST
        self._gaps = _Sample(_KEPT)
        self._first_tokens: dict[int, _Sample] = {}
        self._ratios = _Sample(_NEWEST)

    def silent(self, longest_gap: int) -> None:
        """A reply was complete, and between two of its reads nothing came for so long."""
        gaps = self._gaps
        gaps.add(longest_gap)
        if gaps.count >= _ENOUGH and gaps.count % _STALE == 0:
            self.stall = min(_STALL_MOST, max(_STALL_LEAST, _STALL_GAPS * gaps.percentile(99) / NS_PER_S))

    def slow_now(self) -> bool:
        """Whether the service as a whole is slow: its newest replies took long for prompts of their size."""
        return self._ratios.count >= _NEWEST and self._ratios.percentile(50) > _SLOW * 1000

    def hedge_after(self, size: int) -> int | None:
        """The time in which 95 % of requests with about so many new bytes have their first token; None: not known."""
        like = self._first_tokens.get(size.bit_length())
        return like.percentile(95) if like is not None and like.count >= _ENOUGH else None

    def first_token(self, ttft: int, size: int) -> None:
        """A first token took so long, or did not come within this time; `size` is how many bytes were not cached.

        Without the latter a hedge that wins would hide the very times that it is for.
        """
        bucket = size.bit_length()
        like = self._first_tokens.get(bucket)
        if like is None:
            like = self._first_tokens[bucket] = _Sample(_KEPT)
        elif like.count >= _ENOUGH:
            self._ratios.add(ttft * 1000 // (like.percentile(50) or 1))
        like.add(ttft)

    def asked(self) -> None:
        """A request is sent: it earns its share of a second one."""
        self._hedges = min(_HEDGES_AT_ONCE, self._hedges + self._share)

    def may_hedge(self) -> bool:
        """Whether a second request may be sent now; if so, it has been counted."""
        if self._hedges < 1:
            return False
        self._hedges -= 1
        return True


class _Sample:
    """The newest values; they are put in order when a percentile is asked for and enough has changed."""

    __slots__ = ("_in_order", "_ordered_at", "_stale", "_values", "count")

    def __init__(self, most: int) -> None:
        self._values: deque[int] = deque(maxlen=most)
        self._in_order: list[int] = []
        self._stale = min(_STALE, most // 8)
        self._ordered_at = 0
        self.count = 0

    def add(self, value: int) -> None:
        self._values.append(value)
        self.count += 1

    def percentile(self, percent: int) -> int:
        """The least value that so many per cent do not exceed."""
        if self.count - self._ordered_at >= self._stale:
            self._in_order, self._ordered_at = sorted(self._values), self.count
        return self._in_order[-(-len(self._in_order) * percent // 100) - 1]
