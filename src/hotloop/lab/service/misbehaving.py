"""What a simulated service may do wrong, by name, and how often."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from random import Random

import msgspec

from hotloop.errors import ConfigError
from hotloop.lab.engines.work import Work
from hotloop.lab.oddities import calls, ends, framing
from hotloop.lab.oddities.framing import Framing
from hotloop.lab.oddities.talk import Oddity, pieces_of, talk_of
from hotloop.lab.script import Headers
from hotloop.lab.service.outgoing import JSON, Outgoing, error, refusal
from hotloop.words import listed

Change = Callable[[Outgoing], Outgoing]

_SLOWDOWN = 10.0
_ENTRY = re.compile(r"\s*([\w-]+)(?:\*(\d+(?:\.\d+)?))?:(\d+(?:\.\d+)?)%\s*")
_LIMITS = ((b"x-ratelimit-remaining-requests", b"0"), (b"x-ratelimit-reset-requests", b"1.2s"), (b"retry-after", b"2"))
_PAGE = b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"


class Mix:
    """How often which fault happens, written like "429:2%,cut:1%,slow*20:3%"; `*` tells how many times as slow.

    Each request has at most one. Raises ConfigError for faults that there are not, and for more than 100 %.
    """

    def __init__(self, text: str, seed: int = 0) -> None:
        self._random = Random(f"{seed} faults")
        self._shares = [_share(entry) for entry in text.split(",")] if text.strip() else []
        if sum(share for share, _ in self._shares) > 1.0 + 1e-9:
            raise ConfigError(f"The faults {text} are more than 100% of all requests.")

    def draw(self) -> Outgoing | Change | None:
        """What comes in place of the next reply, or is done to it; None: nothing is wrong."""
        chance = self._random.random() if self._shares else 1.0
        for share, fault in self._shares:
            chance -= share
            if chance < 0:
                return fault
        return None


def faults() -> dict[str, str]:
    """Every fault's name, and what it does in a sentence."""
    return {name: sentence for name, (sentence, _) in _FAULTS.items()}


def _slow(reply: Outgoing, times: float = _SLOWDOWN) -> Outgoing:
    return msgspec.structs.replace(reply, slowdown=times)


def _cut(reply: Outgoing) -> Outgoing:
    return msgspec.structs.replace(_half(reply), ending="cut")


def _stall(reply: Outgoing) -> Outgoing:
    return msgspec.structs.replace(_half(reply), ending="stall")


def _plain_json(reply: Outgoing) -> Outgoing:
    if reply.whole is None:
        return reply
    return msgspec.structs.replace(reply, pieces=(), tail=reply.whole, headers=JSON)


def _tool_use_failed(reply: Outgoing) -> Outgoing:
    return _unread(reply, lambda calls: "\n".join(f"<function={name}={text}</function>" for name, text in calls))


def _tool_use_listed(reply: Outgoing) -> Outgoing:
    listed = '{{"name": "{}", "arguments": {}}}'
    return _unread(reply, lambda calls: f"```json\n[{', '.join(listed.format(*call) for call in calls)}]\n```")


def _unread(reply: Outgoing, write: Callable[[list[tuple[str, str]]], str]) -> Outgoing:
    """The refusal of a reply whose calls, written in this way, the service cannot read."""
    message = msgspec.json.decode(_body(reply))["choices"][0]["message"]
    functions = [each["function"] for each in message.get("tool_calls", ())]
    if not functions:
        return reply
    written = write([(each["name"], each["arguments"]) for each in functions])
    fault = {"message": "Failed to call a function.", "type": "invalid_request_error", "code": "tool_use_failed"}
    return refusal(400, msgspec.json.encode({"error": fault | {"failed_generation": written}}))


def _half(reply: Outgoing) -> Outgoing:
    """The first half of a reply, of a whole body its first bytes."""
    if reply.pieces:
        kept = max(1, len(reply.pieces) // 2)
        return msgspec.structs.replace(reply, tokens=kept, pieces=reply.pieces[:kept], tail=None)
    body = _body(reply)
    return msgspec.structs.replace(reply, tail=lambda _: body[: len(body) // 2])


def _talked(oddity: Oddity, reply: Outgoing) -> Outgoing:
    """A streamed reply that was taken apart and changed."""
    if reply.tail is None or not reply.pieces:
        return reply
    talk = talk_of([*reply.pieces, reply.tail(_untimed(reply))])
    oddity(talk)
    *pieces, last, tail = pieces_of(talk)
    return msgspec.structs.replace(reply, pieces=[*pieces, last + tail], tail=None)


def _framed(framing: Framing, reply: Outgoing) -> Outgoing:
    """A streamed reply whose bytes were changed."""
    if reply.tail is None or not reply.pieces:
        return reply
    *pieces, last = reply.pieces
    whole = [*pieces, last + reply.tail(_untimed(reply))]
    return msgspec.structs.replace(reply, pieces=framing(whole), tail=None)


def _body(reply: Outgoing) -> bytes:
    """The reply as one body."""
    make = reply.whole or reply.tail
    return make(_untimed(reply)) if make is not None else b"".join(reply.pieces)


def _untimed(reply: Outgoing) -> Work:
    """What an odd reply's end is made from, before there is any time to tell."""
    return Work(reply.tokens, lambda _: None, reply.prompt)


def _share(entry: str) -> tuple[float, Outgoing | Change]:
    found = _ENTRY.fullmatch(entry)
    if not found:
        raise ConfigError(f"{entry.strip()!r} is no fault; write its name and how often, like cut:1% or slow*20:3%.")
    name, times, percent = found.groups()
    if name not in _FAULTS:
        raise ConfigError(f"There is no fault {name!r}; there are {listed(name, _FAULTS)}.")
    if times and name != "slow":
        raise ConfigError(f"Only slow can be told how many times, not {name}.")
    if times and float(times) < 1:
        raise ConfigError(f"slow*{times} is not slower; write 1 or more, like slow*20.")
    fault = partial(_slow, times=float(times)) if times else _FAULTS[name][1]
    return float(percent) / 100, fault


def _limited(headers: Headers = (), sentence: str = "") -> Outgoing:
    return error(429, f"Rate limit reached.{sentence}", "requests", "rate_limit_exceeded", headers)


_FAULTS: dict[str, tuple[str, Outgoing | Change]] = {
    "429": ("Status 429, with Retry-After and rate limit headers.", _limited(_LIMITS)),
    "429-words": ("Status 429 that says when to come back in words only.", _limited((), " Please try again in 0.4s.")),
    "429-bare": ("Status 429 that does not say when to come back.", _limited()),
    "498": ("Status 498: no capacity on this tier, as at Groq.", error(498, "Flex tier capacity exceeded.", "server")),
    "500": ("Status 500.", error(500, "The server had an error.", "server_error")),
    "502": ("Status 502 with a page of a gateway.", refusal(502, _PAGE, ((b"content-type", b"text/html"),))),
    "503": ("Status 503 with Retry-After.", error(503, "Overloaded.", "server_error", None, ((b"retry-after", b"1"),))),
    "slow": ("The first token takes 10 times as long, or as often as `slow*20` says.", _slow),
    "cut": ("The connection breaks in the middle of the reply.", _cut),
    "stall": ("Nothing more comes from the middle of the reply on, and the connection stays open.", _stall),
    "plain-json": ("A streamed request is answered with one JSON body.", _plain_json),
    "tool-use-failed": (
        "Calls are refused as Groq does, with status 400 and what the model wrote, in tags.",
        _tool_use_failed,
    ),
    "tool-use-listed": ("The same, with what the model wrote as a fenced list.", _tool_use_listed),
    **{name: (told, partial(_talked, odd)) for name, (told, odd) in (calls.ODDITIES | ends.ODDITIES).items()},
    **{name: (told, partial(_framed, odd)) for name, (told, odd) in framing.FRAMINGS.items()},
}
