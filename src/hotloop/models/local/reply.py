"""What the model writes, as a reply of an OpenAI-compatible service: text and calls, whole or as server-sent events."""

from __future__ import annotations

import random
import time
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Protocol

import msgspec

from hotloop.models.local.request import JsonObject

Delta = JsonObject

_encode = msgspec.json.encode


class EngineFault(Exception):
    """The engine answers with an error: its HTTP `status` and its error object."""

    def __init__(self, status: int, message: str, kind: str = "invalid_request_error", code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = _encode({"error": {"message": message, "type": kind, "code": code or kind}})


class LineReader:
    """Reads the choices in llama.cpp's chunks, where calls are lines (see `grammar`) and anything else is text.

    `names` are the tools that may be called; with `only_calls`, text means that the grammar was not in force.
    """

    def __init__(self, names: Sequence[str], *, only_calls: bool = False) -> None:
        self._openings = {f"{name} ": name for name in names}
        self._only_calls = only_calls
        self._held = ""  # the beginning of a line that may yet become a call
        self._calls = 0
        self._within = ""  # "", "call" or "text"

    def __call__(self, choice: JsonObject) -> Iterator[Delta]:
        delta = choice.get("delta", {})
        if thought := delta.get("reasoning_content"):
            yield {"reasoning_content": thought}
        text = choice.get("text") or delta.get("content") or ""
        while text:
            if self._within == "text":
                yield {"content": text}
                return
            if self._within == "call":
                arguments, ended, text = text.partition("\n")
                if arguments:
                    yield self._call({"arguments": arguments})
                self._within = "" if ended else "call"
            else:
                self._held += text
                text = yield from self._decide()
        if choice.get("finish_reason") and self._held:
            yield {"content": self._held}

    def _decide(self) -> Generator[Delta, None, str]:
        """Opens a call or gives up on one, once what is held is enough to tell; returns what is left to read."""
        held = self._held
        name = next((name for opening, name in self._openings.items() if held.startswith(opening)), None)
        if name is None and any(opening.startswith(held) for opening in self._openings):
            return ""
        self._held = ""
        if name is None:
            self._require_text(held)
            self._within = "text"
            return held
        self._within = "call"
        self._calls += 1
        yield self._call({"name": name, "arguments": ""}, id=f"call_{random.getrandbits(64):016x}", type="function")
        return held[len(name) + 1 :]

    def _require_text(self, held: str) -> None:
        if self._only_calls or self._calls:
            raise EngineFault(
                500, f"The constraint did not hold: the model wrote {held!r} instead of a call.", "server_error"
            )

    def _call(self, function: JsonObject, **more: str) -> Delta:
        return {"tool_calls": [{"index": self._calls - 1, **more, "function": function}]}


class Sink(Protocol):
    """Takes a reply's deltas and gives the bytes of its body."""

    content_type: bytes

    def delta(self, delta: Delta) -> bytes:
        """The next piece."""

    def end(self, finish_reason: str, usage: JsonObject, timings: JsonObject) -> bytes:
        """The reply is complete."""


class EventSink:
    """A streamed body: server-sent events."""

    content_type = b"text/event-stream"

    def __init__(self, model: str) -> None:
        self._head = _identity(model, "chat.completion.chunk")
        self._role: Delta = {"role": "assistant"}

    def delta(self, delta: Delta) -> bytes:
        """See `Sink.delta`."""
        choice = {"index": 0, "delta": self._role | delta, "finish_reason": None}
        self._role = {}
        return self._event({"choices": [choice]})

    def end(self, finish_reason: str, usage: JsonObject, timings: JsonObject) -> bytes:
        """See `Sink.end`."""
        last = self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason}]})
        counts = self._event({"choices": [], "usage": usage, "timings": timings})
        return last + counts + b"data: [DONE]\n\n"

    def _event(self, fields: JsonObject) -> bytes:
        return b"data: %b\n\n" % _encode(self._head | fields)


class WholeSink:
    """A body in one piece."""

    content_type = b"application/json"

    def __init__(self, model: str) -> None:
        self._head = _identity(model, "chat.completion")
        self._words: dict[str, str] = {}
        self._calls: dict[int, JsonObject] = {}

    def delta(self, delta: Delta) -> bytes:
        """See `Sink.delta`."""
        for key, value in delta.items():
            if isinstance(value, str):
                self._words[key] = self._words.get(key, "") + value
        for call in delta.get("tool_calls", ()):
            known = self._calls.setdefault(call["index"], {"function": {"name": "", "arguments": ""}})
            known |= {key: call[key] for key in ("id", "type") if key in call}
            for key, value in call["function"].items():
                known["function"][key] += value
        return b""

    def end(self, finish_reason: str, usage: JsonObject, timings: JsonObject) -> bytes:
        """See `Sink.end`."""
        message: JsonObject = {"role": "assistant", "content": None} | self._words
        if self._calls:
            message["tool_calls"] = list(self._calls.values())
        choice = {"index": 0, "message": message, "finish_reason": finish_reason}
        return _encode(self._head | {"choices": [choice], "usage": usage, "timings": timings})


class ReplyWriter:
    """Turns the chunks of one reply of llama.cpp into the bytes of a body. Raises EngineFault."""

    def __init__(self, read: LineReader, sink: Sink) -> None:
        self._read = read
        self._sink = sink
        self._finish = ""
        self._called = False

    def __call__(self, chunk: JsonObject) -> bytes:
        if error := chunk.get("error"):
            raise _fault(error)
        written = b""
        for choice in chunk.get("choices", ()):
            for delta in self._read(choice):
                self._called = self._called or "tool_calls" in delta
                written += self._sink.delta(delta)
            self._finish = choice.get("finish_reason") or self._finish
        if "usage" in chunk and self._finish:
            reason = "tool_calls" if self._called and self._finish == "stop" else self._finish
            written += self._sink.end(reason, chunk["usage"], chunk.get("timings", {}))
        return written


def _identity(model: str, kind: str) -> JsonObject:
    return {
        "id": f"chatcmpl-{random.getrandbits(64):016x}",
        "object": kind,
        "created": int(time.time()),
        "model": model,
    }


def _fault(error: Any) -> EngineFault:
    kind, message = str(error.get("type", "server_error")), str(error.get("message", error))
    if kind == "exceed_context_size_error":
        return EngineFault(400, message, code="context_length_exceeded")
    return EngineFault(int(error.get("code", 500)), message, kind)
