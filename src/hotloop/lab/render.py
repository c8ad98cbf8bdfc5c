"""A reply of the script as an OpenAI-compatible service writes it: server-sent events, or one JSON body."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain
from math import ceil
from typing import Any

import msgspec

from hotloop.lab.script import Call, Reply

MODEL = "simulated"
_CREATED = 1_700_000_000
_DONE = b"data: [DONE]\n\n"
_ARGUMENT_PIECE = 4  # characters: the usual rule of thumb for a token

# A word with the blanks before it, one CJK character, or the blanks at the end.
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"
_TOKEN = re.compile(rf"\s*[{_CJK}]|\s*[^\s{_CJK}]+|\s+")


class Rendered(msgspec.Struct, frozen=True, gc=False):
    """A reply as bytes: `tokens` has one piece a token, the first of them after the frame that names the role."""

    tokens: tuple[bytes, ...]
    finish: bytes
    usage: bytes | None
    completion_tokens: int
    identity: dict[str, Any]
    message: dict[str, Any]
    finish_reason: str

    def tail(self, prompt_tokens: int, include_usage: bool) -> bytes:
        """What follows the last token: the finish frame, the usage frame if asked for, and `[DONE]`."""
        if not include_usage:
            return self.finish + _DONE
        usage = {**self.identity, "object": "chat.completion.chunk", "choices": [], "usage": self._usage(prompt_tokens)}
        return self.finish + _event(usage) + _DONE

    def stream(self, prompt_tokens: int, include_usage: bool) -> list[bytes]:
        """The whole stream, one piece a token, the tail with the last."""
        return [*self.tokens[:-1], self.tokens[-1] + self.tail(prompt_tokens, include_usage)]

    def body(self, prompt_tokens: int) -> bytes:
        """The reply as one JSON body."""
        choice = {"index": 0, "message": self.message, "logprobs": None, "finish_reason": self.finish_reason}
        usage = self._usage(prompt_tokens)
        return msgspec.json.encode({**self.identity, "object": "chat.completion", "choices": [choice], "usage": usage})

    def _usage(self, prompt_tokens: int) -> msgspec.Raw | dict[str, int]:
        if self.usage is not None:
            return msgspec.Raw(self.usage)
        total = prompt_tokens + self.completion_tokens
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": total,
        }


@lru_cache(maxsize=1024)
def render(whole: Reply, turn: int, cap: int | None = None) -> Rendered:
    """A reply as bytes; `turn` makes its ids unique in the conversation, `cap` is the most tokens it may have."""
    reply = whole if cap is None else _capped(whole, cap)
    identity = {"id": f"chatcmpl-{turn}", "created": _CREATED, "model": MODEL}
    calls = [(f"call_{turn}_{slot}", each) for slot, each in enumerate(reply.calls)]
    finish_reason = "length" if reply != whole else "tool_calls" if calls else "stop"
    deltas = [{"content": piece} for piece in tokenize(reply.text)]
    deltas += chain.from_iterable(_call_deltas(slot, *each) for slot, each in enumerate(calls))
    role = {"role": "assistant", "content": None if calls and not reply.text else ""}
    frames = [_chunk(identity, delta) for delta in deltas] or [b""]
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


def _call_deltas(slot: int, call_id: str, call: Call) -> list[dict[str, Any]]:
    function = {"name": call.name, "arguments": ""}
    head = {"index": slot, "id": call_id, "type": "function", "function": function}
    text = call.arguments
    pieces = [text[at : at + _ARGUMENT_PIECE] for at in range(0, len(text), _ARGUMENT_PIECE)]
    tail = [{"index": slot, "function": {"arguments": piece}} for piece in pieces]
    return [{"tool_calls": [fragment]} for fragment in (head, *tail)]


def _message(text: str, calls: list[tuple[str, Call]]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else "")}
    if calls:
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call_id, call in calls
        ]
    return message


def _chunk(identity: dict[str, Any], delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return _event({**identity, "object": "chat.completion.chunk", "choices": [choice]})


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"
