"""Where two consecutive prompts diverge: the first difference that the service's prefix cache does not get past.

Bodies are compared as the model reads them. White space between JSON tokens, the order of options and options that
are no part of the prompt make no difference to a cache, so that a difference behind them is the one that is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, Literal

import msgspec

from hotloop.models.prefix.causes import Cause, cause_of
from hotloop.models.prefix.comparing import Spot, between, between_messages
from hotloop.models.prefix.parts import HEAD_ROLES, Body, Part, path_to, read_body
from hotloop.models.prefix.telling import excerpt, sentence
from hotloop.models.sizes import estimated_tokens

Kind = Literal["option", "tool", "message"]
_Where = tuple[Kind, int, str, str]  # kind, number, name, field
_SAMPLING = ["temperature", "top_p", "top_k", "min_p", "seed", "stop", "n", "logit_bias", "logprobs", "top_logprobs"]
_SAMPLING += ["presence_penalty", "frequency_penalty", "repetition_penalty"]
_DELIVERY = ["stream", "stream_options", "max_tokens", "max_completion_tokens", "n_predict", "service_tier", "priority"]
_RECORDS = ["user", "safety_identifier", "metadata", "store", "cache_prompt", "id_slot", "prompt_cache_retention"]
_NO_PROMPT = frozenset([*_SAMPLING, *_DELIVERY, *_RECORDS])


class Divergence(msgspec.Struct, frozen=True):
    """The first difference between two prompts: byte `at` of the later one, in `kind` number `number`, in `field`.

    `name` is the option's or tool's name or the message's role, `was` and `now` are the text around it before and
    after, in quotes. About `anew` tokens of the later prompt come behind it; `again` of them had been sent before and
    would be in the cache without it. `details` says what changed where an excerpt would not. `str()` is for a person.
    """

    at: int
    kind: Kind
    number: int
    name: str
    field: str
    was: str
    now: str
    cause: Cause
    anew: int
    again: int
    details: str = ""

    @property
    def costs(self) -> bool:
        """Whether something has to be read again because of it."""
        return self.cause not in ("request", "sampling")

    def __str__(self) -> str:
        return sentence(self)


def divergence(before: bytes, after: bytes) -> Divergence | None:
    """How `after` differs from the prompt before it; None if it is the same, goes on where that ends, or ends sooner.

    Both are request bodies, or what they begin with. Raises ConfigError for what is no JSON object.
    """
    return None if before == after else next(divergences(before, after), None)


def divergences(before: bytes, after: bytes) -> Iterator[Divergence]:
    """All differences in the order in which prompts are read: the first one of each tool, message and option."""
    old, new = read_body(before), read_body(after)
    others = [name for name in dict.fromkeys([*new.options, *old.options]) if name != "model"]
    yield from _in_options(old, new, ["model"])
    yield from _in_tools(old, new)
    yield from _in_messages(old, new)
    yield from _in_options(old, new, [name for name in others if name not in _NO_PROMPT])
    yield from _in_options(old, new, [name for name in others if name in _NO_PROMPT])


def _in_options(old: Body, new: Body, names: Sequence[str]) -> Iterator[Divergence]:
    for name in names:
        if spot := between(old, old.options.get(name), new, new.options.get(name)):
            cause: Cause = "model" if name == "model" else "sampling" if name in _NO_PROMPT else "option"
            behind = [] if cause == "sampling" else [*new.tools, *new.messages]
            yield _found(old, new, spot, ("option", 0, name, ""), cause, 0, behind)


def _in_tools(old: Body, new: Body) -> Iterator[Divergence]:
    for number, (then, now) in enumerate(zip_longest(old.tools, new.tools)):
        if spot := between(old, then, new, now):
            cause, details = _tool_cause(old, then, new, now, spot)
            field = ".".join(path_to(new.data, now, spot.at)) if now else ""
            rest = estimated_tokens(new.data[spot.at : now.end]) if now else 0
            behind = [*new.tools[number + 1 :], *new.messages]
            where: _Where = ("tool", number, _tool_name(new, now) if now else _tool_name(old, then), field)
            yield _found(old, new, spot, where, cause, rest, behind, details)


def _in_messages(old: Body, new: Body) -> Iterator[Divergence]:
    for number, (then, now) in enumerate(zip(old.messages, new.messages, strict=False)):
        if spot := between_messages(old, then, new, now):
            rest, behind = estimated_tokens(new.data[spot.at : now.end]), new.messages[number + 1 :]
            if _is_head(new, number):
                behind = [*new.tools, *behind]  # most chat templates write them behind the instructions
            where: _Where = ("message", number, new.plain(now, "role"), ".".join(path_to(new.data, now, spot.at)))
            yield _found(old, new, spot, where, _message_cause(old, new, number, spot), rest, behind)


def _found(
    old: Body,
    new: Body,
    spot: Spot,
    where: _Where,
    cause: Cause,
    rest: int,
    behind: Sequence[Part],
    details: str = "",
) -> Divergence:
    """The divergence with its sizes; `rest` tokens of its own part come after it, then the parts `behind`."""
    was, now = excerpt(spot.was, spot.first), excerpt(spot.now, spot.first)
    known = {old.text(part) for part in (*old.tools, *old.messages)}
    again = 0 if cause == "request" else rest + _size(new, [part for part in behind if new.text(part) in known])
    return Divergence(spot.at, *where, was, now, cause, rest + _size(new, behind), again, details)


def _tool_cause(old: Body, then: Part | None, new: Body, now: Part | None, spot: Spot) -> tuple[Cause, str]:
    before, after = ([_tool_name(body, each) for each in body.tools] for body in (old, new))
    if sorted(before) != sorted(after):
        changes = [("without", set(before) - set(after)), ("with", set(after) - set(before))]
        return "tool set", ", ".join(f"{how} {', '.join(sorted(names))}" for how, names in changes if names)
    if then is None or now is None or _tool_name(old, then) != _tool_name(new, now):
        return "tool order", ""
    one, other = _value(old.text(then)), _value(new.text(now))
    if one == other:
        return "key order", ""
    if _sorted(one) == _sorted(other):
        return "order", ""
    cause = cause_of(spot.was, spot.now, spot.first)
    return ("tool" if cause in ("text", "counter") else cause), ""


def _message_cause(old: Body, new: Body, number: int, spot: Spot) -> Cause:
    then, now = [old.text(each) for each in old.messages[number:]], [new.text(each) for each in new.messages[number:]]
    if now[0] in then:
        return "trimmed"
    if then[0] in now:
        return "inserted"
    head = _is_head(old, number) or _is_head(new, number)
    if not head and new.plain(new.messages[number], "role") == "user" and set(then).isdisjoint(now):
        return "request"
    cause = cause_of(spot.was, spot.now, spot.first)
    return cause if head or cause not in ("text", "counter") else "edited"


def _is_head(body: Body, number: int) -> bool:
    """Whether a message belongs to the instructions, which every conversation begins with."""
    return all(body.plain(each, "role") in HEAD_ROLES for each in body.messages[: number + 1])


def _tool_name(body: Body, tool: Part) -> str:
    return body.plain(tool, "function", "name") or body.plain(tool, "name") or body.plain(tool, "type")


def _size(body: Body, parts: Sequence[Part]) -> int:
    return sum(estimated_tokens(body.text(part)) for part in parts)


def _value(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:  # of a front that is cut off inside
        return text


def _sorted(value: Any) -> bytes:
    """A value with its keys and lists in one order."""
    if isinstance(value, dict):
        return b"{%b}" % b",".join(sorted(msgspec.json.encode(name) + _sorted(each) for name, each in value.items()))
    if isinstance(value, list):
        return b"[%b]" % b",".join(sorted(map(_sorted, value)))
    return msgspec.json.encode(value)
