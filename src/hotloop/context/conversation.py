"""The conversation: append-only, kept as the bytes that the model is sent."""

from __future__ import annotations

from typing import Any

import msgspec

_encode = msgspec.json.encode


class Conversation:
    """Messages as one run of JSON objects, so that a turn costs what it adds.

    Call ids on the wire are ours, nine letters and digits that are unique in the conversation: some services refuse
    others' ids, and some repeat their own.
    """

    __slots__ = ("_calls", "messages")

    def __init__(self, instructions: str = "") -> None:
        self.messages = bytearray()
        self._calls = 0
        if instructions:
            self._append(b'{"role":"system","content":%b}' % _encode(instructions))

    def branch(self) -> Conversation:
        """A copy that can be written to and dropped without a trace in this one."""
        copy = Conversation()
        copy.messages = bytearray(self.messages)
        copy._calls = self._calls
        return copy

    def user(self, text: str) -> None:
        """What the user says."""
        self._append(b'{"role":"user","content":%b}' % _encode(text))

    def answer(self, text: str) -> None:
        """What the model answers."""
        self._append(b'{"role":"assistant","content":%b}' % _encode(text))

    def calls(
        self,
        calls: list[tuple[str, str, dict[str, Any]]],
        *,
        text: str = "",
        empty_content: bytes = b"null",
        reasoning: str = "",
    ) -> list[str]:
        """The model's calls as (name, arguments, extra fields); returns their ids in the same order."""
        ids = [f"call{self._calls + number:05d}" for number in range(1, len(calls) + 1)]
        self._calls += len(calls)
        items = b",".join(
            b'{"id":"%b","type":"function","function":{"name":%b,"arguments":%b}%b}'
            % (call_id.encode(), _encode(name), _encode(arguments), b"," + _encode(extra)[1:-1] if extra else b"")
            for call_id, (name, arguments, extra) in zip(ids, calls, strict=True)
        )
        content = _encode(text) if text and not text.isspace() else empty_content
        thought = b',"reasoning_content":%b' % _encode(reasoning) if reasoning else b""
        self._append(b'{"role":"assistant","content":%b%b,"tool_calls":[%b]}' % (content, thought, items))
        return ids

    def result(self, call_id: str, content: str) -> None:
        """What a tool gave; every call gets exactly one."""
        self._append(b'{"role":"tool","tool_call_id":"%b","content":%b}' % (call_id.encode(), _encode(content)))

    def _append(self, message: bytes) -> None:
        if self.messages:
            self.messages += b","
        self.messages += message
