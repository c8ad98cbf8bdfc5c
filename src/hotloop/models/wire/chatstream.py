"""One reply of an OpenAI-compatible service: bytes in, typed events out.

No I/O and no clock, so that any source of bytes will do. Work per chunk is constant, and how the network cut the
stream into reads makes no difference to the events.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hotloop.errors import ContentFiltered, MalformedReply, ModelError, TransportError, TruncatedReply
from hotloop.events import Event, ReasoningDelta, ReplyFinished, TextDelta
from hotloop.models.reply import Call, Reply
from hotloop.models.wire.assembler import CallAssembler
from hotloop.models.wire.faults import is_error, service_error
from hotloop.models.wire.frames import (
    Delta,
    Frame,
    decode_frame,
    decode_json,
    encode_json,
    groq_ms,
    lenient_frame,
    model_of,
    own_ms,
    usage_of,
    whole_frame,
)
from hotloop.models.wire.likeness import Likeness, likeness
from hotloop.models.wire.sse import EventSource, next_event, payloads

_SAFE = frozenset({"stop", "tool_calls", "function_call"})
_FAILED = frozenset({"error", "abort"})
_DONE = b"[DONE]"
_LONGEST = 32 << 20  # bytes of one event, or of a whole body
_MANY = 8192  # bytes in one read from which chunks are read as runs
_LESSONS = 8  # chunks that may be looked at for what the others are like
_BLANK = b" \t\r\n\xef\xbb\xbf"
_CUT = "The reply was cut off."


class ChatStream:
    """Parses one reply, streamed or whole.

    Feed it the body's bytes, then `close` it; both return the events that became certain. Afterwards `error` says why
    there is no usable reply, or `reply()` is the reply. `texts` are its text so far, `tokens` counts the pieces of
    text, reasoning and calls that have arrived, `done` tells that the service has said it is finished. `max_tokens` is
    the cap that was asked for: some servers report a cut reply as complete. `calls` are the calls that are being
    written, None before the first.
    """

    __slots__ = (
        "_by_message",
        "_finish",
        "_held",
        "_lessons",
        "_like",
        "_max_tokens",
        "_model",
        "_plain",
        "_reasoning",
        "_sealed",
        "_server_ms",
        "_source",
        "_usage",
        "calls",
        "done",
        "error",
        "texts",
        "tokens",
    )

    def __init__(self, max_tokens: int | None = None) -> None:
        self._max_tokens = max_tokens
        self._source: EventSource | None = None
        self._plain: list[bytes] = []
        self._held = 0
        self.texts: list[str] = []
        self._reasoning: list[str] = []
        self.calls: CallAssembler | None = None
        self._sealed: list[Call] = []
        self._finish: str | None = None
        self._usage: dict[str, Any] = {}
        self._server_ms: dict[str, float] = {}
        self._model: str | None = None
        self._by_message = False
        self._like: Likeness | None = None
        self._lessons = _LESSONS
        self.tokens = 0
        self.done = False
        self.error: ModelError | None = None

    def feed(self, data: bytes) -> list[Event]:
        """Take the next bytes of the body."""
        if self.done or self.error is not None:
            return []
        if self._source is None:
            if not self._plain:
                data = data.lstrip(_BLANK)
                if data and data[:1] not in b"{[<":
                    self._source = EventSource()
                    return self._read(self._source.feed(data))
            if data:
                self._plain.append(data)
                self._held += len(data)
                if self._held > _LONGEST:
                    self.error = MalformedReply(f"The service sent a body of more than {_LONGEST >> 20} MiB.")
            return []
        if self._source.is_one(data):
            events: list[Event] = []
            self._chunks([data[6:-2]], events)
            return events
        return self._read(self._source.feed(data))

    def close(self) -> list[Event]:
        """The body has ended: decide whether the reply is complete and its calls may run."""
        events: list[Event] = []
        if self._source is not None and not self.done:
            sound = self.error is None
            self._chunks(payloads(self._source.close()), events)
            if sound and isinstance(self.error, MalformedReply):
                self.error = TransportError(_CUT)
        elif self._plain:
            self._whole(b"".join(self._plain), events)
        if self.error is None:
            self._end(events)
        return events

    def reply(self) -> Reply:
        """The complete reply; raises `error` if there is one."""
        if self.error is not None:
            raise self.error
        return Reply(
            "".join(self.texts),
            self._sealed,
            self._finish or "stop",
            usage_of(self._usage),
            "".join(self._reasoning),
            self._model,
            self._server_ms,
        )

    @property
    def started(self) -> bool:
        """True once any part of the reply has been told as an event."""
        return self.tokens > 0

    @property
    def written(self) -> int | None:
        """Tokens that the model has written, as far as the service counted them."""
        return usage_of(self._usage).output_tokens

    def _read(self, block: bytes) -> list[Event]:
        """Read whole events: many at once where they are alike, others one by one."""
        events: list[Event] = []
        if not block and self._source is not None and self._source.held > _LONGEST:
            self.error = self.error or MalformedReply(f"The service sent an event of more than {_LONGEST >> 20} MiB.")
        if len(block) > _MANY:
            block = self._runs(block, events)
        if block:
            self._chunks(payloads(block), events)
        return events

    def _runs(self, block: bytes, events: list[Event]) -> bytes:
        """Read a run of like chunks and what comes before it; returns what is left to read."""
        at = 0
        while self._like is None and self._lessons and len(block) - at > _MANY and not self.done:
            event, at = next_event(block, at)
            self._learn(event, events)
        if self.done:
            return b""
        if self._like is None:
            return block[at:]
        before, texts, after = self._like.texts(block, at)
        if before:
            self._chunks(payloads(before), events)
        if texts and not self.done and self.error is None:
            self.tokens += len(texts)
            self.texts += texts
            events += map(TextDelta, texts)
        return b"" if self.done else after

    def _learn(self, event: bytes, events: list[Event]) -> None:
        self._lessons -= 1
        known, finish, usage = len(events), self._finish, len(self._usage)
        self._chunks(payloads(event), events)
        if len(events) == known + 1 and (self._finish, len(self._usage), self.error) == (finish, usage, None):
            told = events[-1]
            self._like = likeness(event, told.text) if isinstance(told, TextDelta) else None

    def _chunks(self, chunks: list[bytes], events: list[Event]) -> None:
        """Read chunks one by one; the straight way through is a chunk with nothing but text."""
        texts = self.texts
        if chunks and chunks[-1] == _DONE:
            self.done = True
            chunks.pop()
        for payload in chunks:
            try:
                frame = decode_frame(payload)
            except (msgspec.DecodeError, RecursionError) as fault:
                if payload.strip() == _DONE:
                    self.done = True
                    break
                self._oddity(payload, fault, events)
                continue
            if self.error is not None:
                break
            choices = frame.choices
            if choices:
                choice = choices[0]
                delta = choice.delta
                if delta is not None:
                    text = delta.content
                    if text.__class__ is str and text:
                        self.tokens += 1
                        texts.append(text)
                        events.append(TextDelta(text))
                    if delta.tool_calls:
                        self._called(delta.tool_calls, events)
                    if (
                        text.__class__ is list
                        or delta.reasoning_content
                        or delta.reasoning
                        or delta.function_call
                        or delta.refusal
                    ):
                        self._rare(delta, events)
                elif choice.message is not None:
                    self._message(choice.message, events)
                if choice.finish_reason:
                    self._finished(choice.finish_reason)
            elif choices is None:
                self._no_chunk(payload)
            if (
                frame.usage or frame.error or frame.x_groq or frame.timings or frame.metrics or frame.nvext
            ) is not None:
                self._extras(frame)
            if self._model is None and choices:
                self._model = model_of(payload)

    def _finished(self, reason: str) -> None:
        """The first unsafe reason counts, and some servers write null as text."""
        if reason != "null" and (self._finish is None or self._finish in _SAFE):
            self._finish = reason

    def _message(self, message: Delta, events: list[Event]) -> None:
        """A message in place of a delta: the whole reply; in later chunks all of its text so far, or more of it."""
        if self.tokens and not self._by_message:
            return  # the deltas once more
        known = "".join(self.texts)
        if isinstance(message.content, str):
            text = message.content.removeprefix(known)
            self.texts[:] = [known + text]
            if text:
                self.tokens += 1
                events.append(TextDelta(text))
        if not self._by_message:
            self._called(message.tool_calls or [], events)
            self._rare(message, events)
        self._by_message = True

    def _rare(self, delta: Delta, events: list[Event]) -> None:
        """Everything in a delta but plain text and calls."""
        reasoning = delta.reasoning_content or delta.reasoning or ""
        if isinstance(delta.content, list):
            reasoning += "".join([self._part(part, events) for part in delta.content])
        if reasoning:
            self.tokens += 1
            self._reasoning.append(reasoning)
            events.append(ReasoningDelta(reasoning))
        if delta.refusal:
            self.tokens += 1
            self.texts.append(delta.refusal)
            events.append(TextDelta(delta.refusal))
        if delta.function_call:
            self._called([{"function": delta.function_call}], events)

    def _called(self, items: list[Any], events: list[Event]) -> None:
        if self.calls is None:
            self.calls = CallAssembler()
        try:
            for item in items:
                if isinstance(item, dict):
                    self.tokens += 1
                    self.calls.feed(item, events)
        except msgspec.DecodeError as fault:
            self.error = MalformedReply(f"The service sent arguments that cannot be read: {fault}.")

    def _part(self, part: Any, events: list[Event]) -> str:
        """A content part: text is told, thinking is returned."""
        if not isinstance(part, dict):
            return ""
        if isinstance(text := part.get("text"), str) and text:
            self.tokens += 1
            self.texts.append(text)
            events.append(TextDelta(text))
        thinking = part.get("thinking")
        pieces = (
            [each.get("text") for each in thinking if isinstance(each, dict)]
            if isinstance(thinking, list)
            else [thinking]
        )
        return "".join(piece for piece in pieces if isinstance(piece, str))

    def _extras(self, frame: Frame) -> None:
        if frame.error:
            self._fail(frame.error)
        if frame.usage is not None:
            self._count(frame.usage)
        if frame.x_groq is not None and isinstance(usage := frame.x_groq.get("usage"), dict):
            self._count(usage)
        if frame.timings or frame.metrics or frame.nvext:
            self._server_ms |= own_ms(frame)
        if frame.x_groq and frame.x_groq.get("error"):
            self._fail(frame.x_groq["error"])

    def _count(self, usage: dict[str, Any]) -> None:
        """Usage may come in any chunk and more than once: the last value that is known counts."""
        if self._usage:
            usage = self._usage | {key: value for key, value in usage.items() if value is not None}
        self._usage = usage
        if "completion_time" in usage:
            self._server_ms |= groq_ms(usage)

    def _fail(self, error: Any) -> None:
        body = error if isinstance(error, dict) else {"message": str(error)}
        self.error = service_error(200, {}, body)

    def _no_chunk(self, payload: bytes) -> None:
        """An object without choices: an error that nothing is wrapped around, or of no interest."""
        try:
            value = decode_json(payload)
        except msgspec.DecodeError:
            return
        if is_error(value):
            self._fail(value)

    def _oddity(self, payload: bytes, fault: Exception, events: list[Event]) -> None:
        """A payload that is no usual chunk: an empty one, one with odd types, or one that is no JSON."""
        text = payload.strip()
        if text in (b"", b"null") or self.error is not None:
            return
        try:
            usual = encode_json(lenient_frame(decode_json(text)))
            if usual == payload:  # nothing odd in it, but too deep
                raise fault
        except (msgspec.DecodeError, RecursionError):
            lines = text.split(b"\n")
            if len(lines) > 1:  # events that were not kept apart by blank lines
                self._chunks(lines, events)
            elif self._finish is None:
                self.error = MalformedReply(f"The service sent a chunk that is not JSON ({fault}): {text[:80]!r}.")
        else:
            self._chunks([usual], events)

    def _whole(self, body: bytes, events: list[Event]) -> None:
        """A reply that came as one JSON body."""
        try:
            value = decode_json(body)
            frame = whole_frame(value)
            chunk = encode_json(frame)
        except msgspec.DecodeError as fault:
            cut = "truncated" in str(fault) or f"(byte {len(body)})" in str(fault)
            no_json = MalformedReply(f"The service sent a body that is not JSON: {body[:80]!r}.")
            self.error = TransportError(_CUT) if cut else no_json
            return
        if frame.get("choices") or frame.get("error"):
            self._chunks([chunk], events)
        elif is_error(value):
            self._fail(value)
        else:
            self.error = MalformedReply(f"The service sent JSON that is no chat completion: {body[:80]!r}.")

    def _end(self, events: list[Event]) -> None:
        if self._finish is None:
            self.error = TransportError("The reply ended before the service said that it was complete.")
        elif self._finish == "content_filter":
            self.error = ContentFiltered("The service's content filter withheld the reply.")
        elif self._finish in _FAILED:
            self._fail(f"it ended the reply with {self._finish!r}")
        elif self.calls is not None:
            self._end_calls(self.calls, self._finish, events)
        if self.error is None:
            events.append(ReplyFinished(self._finish or "stop", len(self._sealed)))

    def _end_calls(self, calls: CallAssembler, finish: str, events: list[Event]) -> None:
        """Calls may run only after a reply that has ended safely, and only if they can be told apart."""
        if finish in _SAFE and not self._capped():
            self._sealed = calls.seal(events)
            if calls.fault:
                self.error = MalformedReply(f"The reply's calls cannot be trusted: {calls.fault}.")
        elif calls and finish in (*_SAFE, "length"):
            self.error = TruncatedReply("The reply hit its token cap inside a tool call. Raise max_tokens.")
        elif calls:
            self.error = MalformedReply(f"The reply ended with {finish!r}, after which its calls cannot be trusted.")

    def _capped(self) -> bool:
        return self._max_tokens is not None and (self.written or 0) >= self._max_tokens
