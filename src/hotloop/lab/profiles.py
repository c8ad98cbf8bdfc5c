"""What a model service is like in time: a profile, with where its numbers come from.

In milliseconds, a reply of `out` tokens to a prompt of `prompt` tokens takes

    reply = ttft + (out - 1) * tpot(c)
    ttft  = rtt + queue + front + prefill
    front   = (base + wait(c)) * J
    prefill = per_prompt_token * (prompt - cached)

`c` is a number of replies: in `tpot` of those being decoded, this one included; in `wait` of the others that are
running (in front, prefill or decode) when this one is admitted. `cached` are whole blocks of the longest prefix that
the service has seen. `queue` is the wait for one of the `slots`, first come first served, and on a GPU then the wait
for the prefills that were admitted earlier. J is exp(queue_sigma * N), N a standard normal number of its own for each
request.

A GPU decodes all its replies in steps, each of which gives every one of them a token and takes
tpot(c) * exp(decode_sigma * N), with N drawn for each step. A reply joins with the first step that begins after its
first token, so on a busy service it has half a step to wait on average. Prefills take turns, one at a time, and while
one goes on decoding goes on at (1 - interference) of its speed.

An LPU decodes at a fixed rate: tpot is constant, exp(decode_sigma * N) is drawn once for each reply, prefills go on
side by side and disturb nobody.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from hotloop.errors import ConfigError
from hotloop.fields import in_plain_words
from hotloop.models.dialects import DIALECTS
from hotloop.units import parse_duration

Number = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=1)]
Kind = Literal["gpu", "lpu"]
Granularity = Literal["token", "call", "burst"]


class Curve(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Milliseconds that grow with a number of replies: a + b c + d c², at most `cap`."""

    a: Number = 0.0
    b: Number = 0.0
    d: Number = 0.0
    cap: Number | None = None

    def at(self, replies: int) -> float:
        """The value for this many replies."""
        value = self.a + self.b * replies + self.d * replies * replies
        return value if self.cap is None else min(value, self.cap)


class Profile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A service in numbers; the module says what they do. `source` and `confidence` go wherever the profile goes.

    `slots` is how many replies run at once and `queue` how many more requests may wait before one is refused (None: any
    number). The prefix cache keeps blocks of `cache_block` tokens (0: there is none), each for `cache_expiry` seconds
    after its last use, and at most `cache_tokens` in all. A prompt of `context_limit` tokens or more leaves no room for
    a reply and is refused (None: no prompt is). `dialect` is how that is said, and how usage and timings are reported;
    where these are for the operator to switch on, as in vLLM, `reports` tells whether they are. `granularity` is how
    tool calls are streamed: by token, each call whole, or all of them with the last token. `fit_error` is, for a
    profile that was fitted to measurements, the median of how far what it predicts is from what was measured, as a
    share (0.03 is 3 %), by name: "ttft", "tpot", "reply".

    Raises ConfigError for values that no service can have.
    """

    name: str
    kind: Kind
    base_ms: Number
    per_prompt_token_ms: Number
    tpot_ms: Curve
    wait_ms: Curve = Curve()
    interference: Share = 0.0
    slots: Count | None = None
    queue: Annotated[int, Meta(ge=0)] | None = None
    queue_sigma: Share = 0.0
    decode_sigma: Share = 0.0
    cache_block: Annotated[int, Meta(ge=0)] = 0
    cache_expiry: Number = 3600.0
    cache_tokens: Count = 1_000_000
    context_limit: Count | None = None
    dialect: str = "generic"
    reports: bool = True
    granularity: Granularity = "token"
    rtt_ms: Number = 0.0
    source: str = ""
    confidence: str = ""
    fit_error: dict[str, float] = {}

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in self.__struct_fields__}
        for where, what in faults_of(given):
            raise ConfigError(f"The profile's {where}: {what}.")

    def ttft_ms(self, prompt: int, *, cached: int = 0, others: int = 0) -> float:
        """The time to the first token without queue and jitter, while `others` more replies are running."""
        front = self.base_ms + self.wait_ms.at(others)
        return self.rtt_ms + front + self.per_prompt_token_ms * (prompt - cached)

    def reply_ms(self, prompt: int, out: int, *, cached: int = 0, replies: int = 1) -> float:
        """The time of a whole reply without queue, jitter and interference, as one of `replies` that run at once."""
        first = self.ttft_ms(prompt, cached=cached, others=replies - 1)
        return first + max(out - 1, 0) * self.tpot_ms.at(replies)


_FIELDS = {field.name: field.type for field in msgspec.structs.fields(Profile)}


def faults_of(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong with these fields of a profile: the field, or the part of it, and a sentence's end about it."""
    found = [fault for name, value in given.items() for fault in _misfit(name, value)]
    yield from found
    if not found and given.get("kind") == "lpu":
        yield from _unfit_for_lpu(given)


def _misfit(name: str, value: Any) -> Iterator[tuple[str, str]]:
    choices = {"kind": get_args(Kind), "granularity": get_args(Granularity), "dialect": DIALECTS}.get(name)
    if choices and value not in choices:
        yield name, f"is {value!r}; there are {', '.join(choices)}"
        return
    if name == "name" and not str(value).strip():
        yield name, "is empty"
    parts = msgspec.structs.asdict(value) if isinstance(value, Curve) else value
    try:
        msgspec.convert(parts, _FIELDS[name])
    except msgspec.ValidationError as error:
        what, place = in_plain_words(error)
        unit = _unit_beside(name, parts[place] if place and isinstance(parts, dict) and place in parts else parts)
        yield f"{name}.{place}" if place else name, what + unit
        return
    for part, number in parts.items() if isinstance(parts, dict) else [("", parts)]:
        if isinstance(number, float) and not math.isfinite(number):
            yield f"{name}.{part}" if part else name, f"is {number}; give a number that is finite"


def _unit_beside(name: str, value: Any) -> str:
    """The end of a sentence about a time that is written with its unit."""
    try:
        parse_duration(value if isinstance(value, str) else "")
    except ValueError:
        return ""
    unit = "milliseconds" if name.endswith("_ms") else "seconds" if name == "cache_expiry" else ""
    return f"; write {unit} without the unit" if unit else ""


def _unfit_for_lpu(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    tpot = msgspec.convert(given.get("tpot_ms", Curve()), Curve)
    for part in ("b", "d"):
        if getattr(tpot, part):
            yield f"tpot_ms.{part}", "an LPU decodes at a fixed rate, so that only a is left; for a GPU write kind: gpu"
    if given.get("interference"):
        yield "interference", "prefills of an LPU disturb nobody; leave it out, or write kind: gpu"
