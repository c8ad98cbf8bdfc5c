"""What was said in a run, as messages in the form that the conventions give them."""

from __future__ import annotations

from typing import Any

import msgspec

from hotloop.trace.ledger import TurnFacts
from hotloop.trace.otel import names
from hotloop.trace.record import Said, TraceRecord

_NOTHING = Said()


class Content:
    """What a record has of what was said: the prompt, the calls, what the model read of their results, the answer."""

    def __init__(self, record: TraceRecord) -> None:
        self._record = record
        self._prompt = _text(record.prompt)
        self._answer = _text(record.answer)

    def of_run(self) -> dict[str, Any]:
        """The prompt and the answer."""
        told = _messages([_message("user", _part(self._prompt))], [self._last()])
        return told | {names.INPUT_VALUE: self._prompt, names.OUTPUT_VALUE: self._answer}

    def of_request(self, turn: int, reply: TurnFacts | None) -> dict[str, Any]:
        """What the request of this turn said of this run, and its reply if it gave one."""
        said = [_message("user", _part(self._prompt))]
        for facts in self._record.turns:
            if facts.turn < turn:
                said += self._calls(facts)
        written = [] if reply is None else self._calls(reply)[:1] or [self._last()]
        return _messages(said, [{**message, "finish_reason": reply.finish_reason} for message in written if reply])

    def of_call(self, call_id: str) -> dict[str, Any]:
        """The arguments of a call, and what the model read of its result."""
        said = self._record.said.get(call_id, _NOTHING)
        return {
            names.CALL_ARGUMENTS: said.text,
            names.CALL_RESULT: said.result,
            names.INPUT_VALUE: said.text,
            names.OUTPUT_VALUE: said.result,
        }

    def _last(self) -> dict[str, Any]:
        return _message("assistant", _part(self._answer))

    def _calls(self, facts: TurnFacts) -> list[dict[str, Any]]:
        """The message with the calls of a reply, and that with their results; nothing if it had none."""
        said = [(call, self._record.said.get(call.call_id, _NOTHING)) for call in facts.calls]
        if not said:
            return []
        calls = [
            {"type": "tool_call", "id": call.call_id, "name": call.name, "arguments": _arguments(words)}
            for call, words in said
        ]
        results = [
            {"type": "tool_call_response", "id": call.call_id, "response": words.result}
            for call, words in said
            if words.result is not None
        ]
        return [_message("assistant", calls), *([_message("tool", results)] if results else [])]


def _messages(said: list[dict[str, Any]], written: list[dict[str, Any]]) -> dict[str, Any]:
    told = {names.INPUT_MESSAGES: said, names.OUTPUT_MESSAGES: written}
    full = {name: [each for each in messages if each["parts"]] for name, messages in told.items()}
    return {name: msgspec.json.encode(messages).decode() for name, messages in full.items() if messages}


def _message(role: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": role, "parts": parts}


def _part(text: str | None) -> list[dict[str, Any]]:
    return [] if text is None else [{"type": "text", "content": text}]


def _text(said: Said | None) -> str | None:
    return None if said is None else said.text


def _arguments(said: Said) -> Any:
    """Arguments as the object that they are, or as text where a model wrote no JSON."""
    if said.text is None:
        return None
    try:
        return msgspec.json.decode(said.text)
    except msgspec.DecodeError:
        return said.text
