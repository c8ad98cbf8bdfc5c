"""A reply of the script as an OpenAI-compatible service writes it: server-sent events, or one JSON body."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain
from math import ceil
from typing import Any

import msgspec

from hotloop.lab.profiles import Granularity
from hotloop.lab.script import Call, Reply

MODEL = "simulated"
_CREATED = 1_700_000_000
_DONE = b"data: [DONE]\n\n"
_ARGUMENT_PIECE = 4  # characters: the usual rule of thumb for a token

# A word with the blanks before it, one CJK character, or the blanks at the end.
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"
_TOKEN = re.compile(rf"\s*[{_CJK}]|\s*[^\s{_CJK}]+|\s+")


class Report(msgspec.Struct):
    """What a service counts and times about a reply: the usage object, further fields of the frame that tells the
    finish reason, and further fields of the last frame of all."""

    usage: dict[str, Any]
    finish: dict[str, Any] = {}
    last: dict[str, Any] = {}


class Rendered(msgspec.Struct, frozen=True, gc=False):
    """A reply as bytes: `tokens` has one piece a token, the first of them after the frame that names the role."""

    tokens: tuple[bytes, ...]
    finish: bytes
    usage: bytes | None
    completion_tokens: int
    identity: dict[str, Any]
    message: dict[str, Any]
    finish_reason: str

    def tail(self, report: Report, include_usage: bool) -> bytes:
        """What follows the last token: the finish frame, the usage frame if asked for, and `[DONE]`."""
        fields = report.finish if include_usage else report.finish | report.last
        finish = _chunk(self.identity, {}, self.finish_reason, fields) if fields else self.finish
        if not include_usage:
            return finish + _DONE
        frame = {**self.identity, "object": "chat.completion.chunk", "choices": [], "usage": self._usage(report)}
        return finish + _event(frame | report.last) + _DONE

    def body(self, report: Report) -> bytes:
        """The reply as one JSON body."""
        choice = {"index": 0, "message": self.message, "logprobs": None, "finish_reason": self.finish_reason}
        whole = {**self.identity, "object": "chat.completion", "choices": [choice], "usage": self._usage(report)}
        return msgspec.json.encode(whole | report.finish | report.last)

    def _usage(self, report: Report) -> msgspec.Raw | dict[str, Any]:
        return report.usage if self.usage is None else msgspec.Raw(self.usage)


@lru_cache(maxsize=1024)
def render(whole: Reply, turn: int, cap: int | None = None, granularity: Granularity = "token") -> Rendered:
    """A reply as bytes; `turn` makes its ids unique in the conversation, `cap` is the most tokens it may have.

    Of a call that is not streamed by token, all pieces but the last are empty.
    """
    reply = whole if cap is None else _capped(whole, cap)
    identity = {"id": f"chatcmpl-{turn}", "created": _CREATED, "model": MODEL}
    calls = [(f"call_{turn}_{slot}", each) for slot, each in enumerate(reply.calls)]
    finish_reason = "length" if reply != whole else "tool_calls" if calls else "stop"
    deltas: list[dict[str, Any] | None] = [{"content": piece} for piece in tokenize(reply.text)]
    deltas += _call_deltas(calls, granularity)
    role = {"role": "assistant", "content": None if calls and not reply.text else ""}
    frames = [_chunk(identity, delta) if delta else b"" for delta in deltas] or [b""]
    frames[0] = _chunk(identity, role) + frames[0]
    return Rendered(
        tokens=tuple(frames),
        finish=_chunk(identity, {}, finish_reason),
        usage=reply.usage,
        completion_tokens=len(deltas),
        identity=identity,
        message=_message(reply.text, calls),
        finish_reason=finish_reason,
    )


def tokenize(text: str) -> list[str]:
    """The simulated tokens of a text: words with the blanks before them, CJK characters one by one."""
    return _TOKEN.findall(text)


def prompt_tokens(body: bytes) -> int:
    """An estimate of the prompt's tokens: one for four bytes of the request."""
    return len(body) // 4


def error_body(message: str, kind: str = "invalid_request_error", code: str | None = None) -> bytes:
    """An error as OpenAI-compatible services write it."""
    return msgspec.json.encode({"error": {"message": message, "type": kind, "param": None, "code": code}})


def _capped(reply: Reply, cap: int) -> Reply:
    """As much of a reply as its first `cap` tokens hold."""
    words = tokenize(reply.text)
    left = cap - len(words)
    calls = []
    for each in reply.calls:
        if left > 0:  # a call's head is a token, the pieces of its arguments follow
            calls.append(Call(each.name, each.arguments[: (left - 1) * _ARGUMENT_PIECE]))
        left -= 1 + ceil(len(each.arguments) / _ARGUMENT_PIECE)
    return Reply("".join(words[:cap]), tuple(calls), reply.usage)


def _call_deltas(calls: list[tuple[str, Call]], granularity: Granularity) -> list[dict[str, Any] | None]:
    """A delta for each token of the calls; None where it is held back to go out with a later one."""
    fragments = [_fragments(slot, *each) for slot, each in enumerate(calls)]
    if granularity == "token":
        return [{"tool_calls": [fragment]} for fragment in chain.from_iterable(fragments)]
    held = [[None] * (len(tokens) - 1) for tokens in fragments]
    whole = [_whole(slot, *each) for slot, each in enumerate(calls)]
    if granularity == "call":
        return list(
            chain.from_iterable([*nothing, {"tool_calls": [call]}] for nothing, call in zip(held, whole, strict=True))
        )
    return [*[None] * (sum(map(len, fragments)) - 1), {"tool_calls": whole}] if whole else []


def _fragments(slot: int, call_id: str, call: Call) -> list[dict[str, Any]]:
    """A call in the pieces that are its tokens: a head, then its arguments."""
    text = call.arguments
    pieces = [text[at : at + _ARGUMENT_PIECE] for at in range(0, len(text), _ARGUMENT_PIECE)]
    head = _whole(slot, call_id, Call(call.name, ""))
    return [head, *({"index": slot, "function": {"arguments": piece}} for piece in pieces)]


def _whole(slot: int, call_id: str, call: Call) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"index": slot, "id": call_id, "type": "function", "function": function}


def _message(text: str, calls: list[tuple[str, Call]]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else "")}
    if calls:
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call_id, call in calls
        ]
    return message


def _chunk(
    identity: dict[str, Any],
    delta: dict[str, Any],
    finish_reason: str | None = None,
    fields: dict[str, Any] | None = None,
) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return _event({**identity, "object": "chat.completion.chunk", "choices": [choice], **(fields or {})})


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"
