"""Limits on requests and tokens a minute, really counted, and told in headers."""

from __future__ import annotations

import math

from hotloop.errors import ConfigError
from hotloop.lab.script import Headers
from hotloop.lab.service.outgoing import Outgoing, error
from hotloop.units import NS_PER_MS, NS_PER_S

_MINUTE = 60 * NS_PER_S


class ServiceLimits:
    """Buckets of requests and of tokens that fill up evenly within a minute (None: there is no such limit).

    Raises ConfigError for limits that let nothing through.
    """

    def __init__(self, rpm: int | None, tpm: int | None) -> None:
        for name, most in (("rpm", rpm), ("tpm", tpm)):
            if most is not None and most < 1:
                raise ConfigError(f"{name} is {most}; give a number from 1 on, or leave it out.")
        self._buckets = {name: _Bucket(most) for name, most in (("requests", rpm), ("tokens", tpm)) if most is not None}

    def refuse(self, tokens: int, now: int) -> Outgoing | None:
        """Count a request with a prompt of this size; what it is refused with, if it is."""
        asked = {"requests": 1, "tokens": tokens}
        waits = {name: bucket.wait(asked[name], now) for name, bucket in self._buckets.items()}
        name = max(waits, key=lambda each: waits[each], default="")
        if not name or not waits[name]:
            for each, bucket in self._buckets.items():
                bucket.take(asked[each])
            return None
        if waits[name] == math.inf:
            sentence = (
                f"Request too large: limit {self._buckets[name].most}, requested {asked[name]} {name} per minute."
            )
            return error(413, sentence, name, "rate_limit_exceeded", self.headers(now))
        return self._try_again(name, math.ceil(waits[name]), now)

    def spend(self, tokens: int) -> None:
        """Count a reply of this size."""
        if bucket := self._buckets.get("tokens"):
            bucket.take(tokens)

    def headers(self, now: int) -> Headers:
        """What is left, and when all of it will be there again."""
        return tuple(
            (b"x-ratelimit-%b-%b" % (what, name.encode()), value)
            for name, bucket in self._buckets.items()
            for what, value in bucket.told(now)
        )

    def _try_again(self, name: str, wait: int, now: int) -> Outgoing:
        seconds, ms = math.ceil(wait / NS_PER_S), math.ceil(wait / NS_PER_MS)
        when: Headers = ((b"retry-after", b"%d" % seconds), (b"retry-after-ms", b"%d" % ms))
        sentence = f"Rate limit reached on {name} per minute. Please try again in {_span(wait)}."
        return error(429, sentence, name, "rate_limit_exceeded", (*self.headers(now), *when))


class _Bucket:
    def __init__(self, most: int) -> None:
        self.most = most
        self._level = float(most)
        self._at = 0

    def wait(self, wanted: int, now: int) -> float:
        """Nanoseconds until so many can be taken; infinity if they never can."""
        self._fill(now)
        missing = max(0.0, wanted - self._level)
        return missing / self.most * _MINUTE if wanted <= self.most else math.inf

    def take(self, count: int) -> None:
        """What was not there is owed."""
        self._level -= count

    def told(self, now: int) -> tuple[tuple[bytes, bytes], ...]:
        self._fill(now)
        full = math.ceil((self.most - self._level) / self.most * _MINUTE)
        left = max(0, math.floor(self._level))
        return (b"limit", b"%d" % self.most), (b"remaining", b"%d" % left), (b"reset", _span(full).encode())

    def _fill(self, now: int) -> None:
        self._level = min(self.most, self._level + (now - self._at) * self.most / _MINUTE)
        self._at = now


def _span(nanoseconds: int) -> str:
    """As services write it: 350ms, 1.2s, 2m59.56s."""
    if nanoseconds < NS_PER_S:
        return f"{math.ceil(nanoseconds / NS_PER_MS)}ms"
    minutes, seconds = divmod(math.ceil(nanoseconds / NS_PER_MS) / 1000, 60)
    return f"{minutes:.0f}m{seconds:g}s" if minutes else f"{seconds:g}s"
