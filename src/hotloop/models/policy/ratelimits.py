"""When a service's rate limits let the next request go, learned from the headers of its replies."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterator

from hotloop.models.wire.faults import span
from hotloop.units import ns

_NAME = re.compile(r"(?:x-)?ratelimit-(limit|remaining|reset)(?:-(.+))?", re.IGNORECASE)
_NUMBER = re.compile(r"\s*([0-9]+)")
_LONGEST_RESET = 100 * 86_400.0  # seconds; more is a date, which some services send instead
_RECENT = 1024  # requests sent of which a reply may not know yet

Headers = list[tuple[bytes, bytes]]


def tells_limits(headers: Headers) -> bool:
    """Whether there may be anything about limits in them; cheap, because most services send nothing."""
    return b"imit-" in b"".join([name for name, _ in headers])


class RateLimits:
    """Each limit as a bucket that refills steadily: what is there, and how fast more comes. Times are nanoseconds."""

    __slots__ = ("_buckets", "_held", "_sent")

    def __init__(self) -> None:
        self._buckets: dict[str, _Bucket] = {}
        self._held = 0
        self._sent: deque[tuple[int, int]] = deque(maxlen=_RECENT)  # when, and of how many tokens

    def learn(self, headers: Headers, at: int, sent: int) -> bool:
        """Take over what a reply says, whose headers came at `at` for a request of `sent`; False: it says nothing.

        What went after that request is taken off: the service may not have counted it yet.
        """
        told: dict[str, dict[str, str]] = {}
        for name, value in headers:
            if found := _NAME.fullmatch(name.decode("latin-1")):
                told.setdefault((found[2] or "requests").lower(), {})[found[1].lower()] = value.decode("latin-1")
        later = [tokens for when, tokens in self._sent if when > sent] if told else []
        for kind, words in told.items():
            self._bucket(kind, words).learn(words, at, sum(later) if "token" in kind else len(later))
        return bool(told)

    def wait(self, tokens: int, now: int, *, requests_ahead: int = 0, tokens_ahead: int = 0) -> int:
        """Nanoseconds until a request of so many tokens may go, after those ahead of it; 0 where nothing is known."""
        if not self._buckets and now >= self._held:
            return 0
        return max(wait for wait, _ in self._waits(tokens, now, requests_ahead, tokens_ahead))

    def reason(self, tokens: int, now: int) -> str:
        """What a request of so many tokens waits for, as a phrase."""
        return max(self._waits(tokens, now, 0, 0))[1]

    def spend(self, tokens: int, now: int) -> None:
        """A request of so many tokens goes now."""
        self._sent.append((now, tokens))
        for bucket in self._buckets.values():
            bucket.take(tokens if bucket.of_tokens else 1, now)

    def hold(self, until: int) -> None:
        """The service wants no request before `until`."""
        self._held = max(self._held, until)

    def _waits(self, tokens: int, now: int, requests_ahead: int, tokens_ahead: int) -> Iterator[tuple[int, str]]:
        yield max(0, self._held - now), "the service asked to be left alone"
        for kind, bucket in self._buckets.items():
            need, ahead = (tokens, tokens_ahead) if bucket.of_tokens else (1, requests_ahead)
            yield bucket.wait(need, ahead, now), f"its rate limit ({kind}) is used up"

    def _bucket(self, kind: str, words: dict[str, str]) -> _Bucket:
        bucket = self._buckets.get(kind)
        if bucket is None:
            bucket = _Bucket("token" in kind)
            if _number(words, "limit") and _number(words, "remaining") is not None:
                self._buckets[kind] = bucket
        return bucket


class _Bucket:
    """One limit. `_left` is what was there at `_at`; `_rate`, once known, is how much comes back in a nanosecond."""

    __slots__ = ("_at", "_left", "_limit", "_rate", "_told_at", "of_tokens")

    def __init__(self, of_tokens: bool) -> None:
        self.of_tokens = of_tokens
        self._limit = self._at = self._told_at = 0
        self._left = self._rate = 0.0

    def learn(self, words: dict[str, str], at: int, later: int) -> None:
        limit, left = _number(words, "limit") or self._limit, _number(words, "remaining")
        if left is None or at < self._told_at:
            return
        reset = span(words.get("reset", "")) or 0.0
        if left < limit and 0 < reset < _LONGEST_RESET:
            self._rate = (limit - left) / ns(reset)
        self._limit, self._left, self._at = limit, left - later, at
        self._told_at = at

    def wait(self, need: int, ahead: int, now: int) -> int:
        lacking = ahead + min(need, self._limit) - self._left_at(now)
        return math.ceil(lacking / self._rate) if lacking > 0 and self._rate else 0

    def take(self, amount: int, now: int) -> None:
        self._left, self._at = self._left_at(now) - amount, max(self._at, now)

    def _left_at(self, now: int) -> float:
        return min(self._limit, self._left + self._rate * max(0, now - self._at))


def _number(words: dict[str, str], name: str) -> int | None:
    found = _NUMBER.match(words.get(name, ""))
    return int(found[1]) if found else None
