"""What the model writes, as a reply of an OpenAI-compatible service: text and calls as server-sent events."""

from __future__ import annotations

import random
import time
from collections.abc import Generator, Iterator, Sequence
from typing import Any

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


class ReplyWriter:
    """Turns the chunks of one reply of llama.cpp into server-sent events. Raises EngineFault."""

    def __init__(self, read: LineReader, model: str) -> None:
        self._read = read
        self._head = {
            "id": f"chatcmpl-{random.getrandbits(64):016x}",
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": model,
        }
        self._role: Delta = {"role": "assistant"}
        self._finish = ""
        self._called = False

    def __call__(self, chunk: JsonObject) -> bytes:
        if error := chunk.get("error"):
            raise _fault(error)
        events = b""
        for choice in chunk.get("choices", ()):
            for delta in self._read(choice):
                self._called = self._called or "tool_calls" in delta
                events += self._choice(self._role | delta)
                self._role = {}
            self._finish = choice.get("finish_reason") or self._finish
        if "usage" in chunk and self._finish:
            events += self._end(chunk["usage"], chunk.get("timings", {}))
        return events

    def _end(self, usage: JsonObject, timings: JsonObject) -> bytes:
        reason = "tool_calls" if self._called and self._finish == "stop" else self._finish
        counts = self._event({"choices": [], "usage": usage, "timings": timings})
        return self._choice({}, reason) + counts + b"data: [DONE]\n\n"

    def _choice(self, delta: Delta, finish_reason: str | None = None) -> bytes:
        return self._event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})

    def _event(self, fields: JsonObject) -> bytes:
        return b"data: %b\n\n" % _encode(self._head | fields)


def _fault(error: Any) -> EngineFault:
    kind, message = str(error.get("type", "server_error")), str(error.get("message", error))
    if kind == "exceed_context_size_error":
        return EngineFault(400, message, code="context_length_exceeded")
    return EngineFault(int(error.get("code", 500)), message, kind)
