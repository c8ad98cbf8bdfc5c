"""The conversation: append-only, kept as the bytes that the model is sent."""

from __future__ import annotations

from typing import Any

import msgspec

from hotloop.errors import ConfigError

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
            self._append({"role": "system", "content": instructions})

    def branch(self) -> Conversation:
        """A copy that can be written to and dropped without a trace in this one."""
        copy = Conversation()
        copy.messages = bytearray(self.messages)
        copy._calls = self._calls
        return copy

    def user(self, text: str) -> None:
        """What the user says."""
        self._append({"role": "user", "content": text})

    def answer(self, text: str) -> None:
        """What the model answers."""
        self._append({"role": "assistant", "content": text})

    def calls(
        self,
        calls: list[tuple[str, str, dict[str, Any]]],
        *,
        text: str = "",
        empty_content: str | None = None,
        reasoning: str = "",
    ) -> list[str]:
        """The model's calls as (name, arguments, extra fields); returns their ids in the same order."""
        ids, items = [], []
        for name, arguments, extra in calls:
            self._calls += 1
            call_id = f"call{self._calls:05d}"
            ids.append(call_id)
            function = {"name": name, "arguments": arguments}
            items.append({"id": call_id, "type": "function", "function": function, **extra})
        message: dict[str, Any] = {"role": "assistant", "content": text if text.strip() else empty_content}
        if reasoning:
            message["reasoning_content"] = reasoning
        message["tool_calls"] = items
        self._append(message)
        return ids

    def result(self, call_id: str, content: str) -> None:
        """What a tool gave; every call gets exactly one."""
        self._append({"role": "tool", "tool_call_id": call_id, "content": content})

    def _append(self, message: dict[str, Any]) -> None:
        try:
            encoded = _encode(message)
        except UnicodeEncodeError as fault:
            odd = fault.object[fault.start]
            raise ConfigError(
                f"The text has {odd!r}, which is no character; decode its bytes in their encoding."
            ) from None
        if self.messages:
            self.messages += b","
        self.messages += encoded
