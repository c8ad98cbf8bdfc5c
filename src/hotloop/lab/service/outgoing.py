"""A reply on its way: bytes for each token, and what is only known, or only goes wrong, when they are sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from hotloop.lab.engines.work import Work, WorkPrompt
from hotloop.lab.profiles import Profile
from hotloop.lab.render import Rendered, Report, error_body, render
from hotloop.lab.script import Headers, RawReply, Reply, Request, token_cap, turn, wants_usage
from hotloop.lab.service.reporting import report_of, timing_headers

Ending = Literal["end", "cut", "stall"]
Make = Callable[[Work], bytes]

EVENTS: Headers = ((b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache"))
JSON: Headers = ((b"content-type", b"application/json"),)


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """A reply of `tokens` tokens: a stream has a piece for each and a `tail`, a whole body has no pieces.

    `tail` and `more` headers are made when they are sent, and may tell times; `whole` is a stream's reply as one body.
    The reply ends, is cut off, or stalls. Pieces that are `apart` are each to be a read of its own. A `refused` request
    is answered when it arrives, any other in the engine's time, its first token after `slowdown` times as long.
    `prompt` is what it is a reply to.
    """

    tokens: int
    pieces: Sequence[bytes] = ()
    tail: Make | None = None
    headers: Headers = ()
    more: Callable[[Work], Headers] | None = None
    status: int = 200
    whole: Make | None = None
    ending: Ending = "end"
    apart: bool = False
    refused: bool = False
    slowdown: float = 1.0
    prompt: WorkPrompt = WorkPrompt()


def outgoing(reply: Reply | RawReply, request: Request, prompt: WorkPrompt, profile: Profile) -> Outgoing:
    """What a service of this profile sends for the reply. Raises InvalidRequest for a token cap that is none."""
    cap = token_cap(request)
    if isinstance(reply, RawReply):
        return _raw(reply, prompt)
    rendered = render(reply, turn(request), cap, profile.granularity)
    tokens, whole = len(rendered.tokens), _whole(rendered, request, profile)
    more = (lambda work: timing_headers(profile, work)) if profile.dialect == "openai" else None
    if not request.get("stream"):
        return Outgoing(tokens, tail=whole, headers=JSON, more=more, prompt=prompt)
    tail = _tail(rendered, request, profile)
    return Outgoing(tokens, rendered.tokens, tail, EVENTS, more, whole=whole, prompt=prompt)


def _raw(reply: RawReply, prompt: WorkPrompt) -> Outgoing:
    return Outgoing(
        max(len(reply.pieces), 1),
        reply.pieces,
        headers=reply.headers,
        status=reply.status,
        ending="cut" if reply.cut else "end",
        apart=True,
        prompt=prompt,
    )


def refusal(status: int, body: bytes, headers: Headers = JSON) -> Outgoing:
    """An error that is told at once."""
    return Outgoing(1, (body,), None, headers, status=status, refused=True)


def error(status: int, message: str, kind: str, code: str | None = None, headers: Headers = ()) -> Outgoing:
    """Such an error as OpenAI-compatible services write it."""
    return refusal(status, error_body(message, kind, code), (*JSON, *headers))


def _whole(rendered: Rendered, request: Request, profile: Profile) -> Make:
    return lambda work: rendered.body(_report(rendered, work, request, profile))


def _tail(rendered: Rendered, request: Request, profile: Profile) -> Make:
    return lambda work: rendered.tail(_report(rendered, work, request, profile), wants_usage(request))


def _report(rendered: Rendered, work: Work, request: Request, profile: Profile) -> Report:
    return report_of(profile, work, request, rendered.completion_tokens)
