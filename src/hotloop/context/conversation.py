"""The conversation: append-only, kept as the bytes that the model is sent."""

from __future__ import annotations

from typing import Any

import msgspec

from hotloop.errors import ConfigError

_encode = msgspec.json.encode
_KEPT = 16 << 20  # characters


class Conversation:
    """Messages as one run of JSON objects, so that a turn costs what it adds.

    Call ids on the wire are ours, nine letters and digits that are unique in the conversation: some services refuse
    others' ids, and some repeat their own. `kept` holds results by id that the model reads only a part of, the latest
    of them up to 16 MiB.
    """

    __slots__ = ("_calls", "kept", "messages")

    def __init__(self, instructions: str = "") -> None:
        self.messages = bytearray()
        self.kept: dict[str, str] = {}
        self._calls = 0
        if instructions:
            self._append({"role": "system", "content": instructions})

    def branch(self) -> Conversation:
        """A copy that can be written to and dropped without a trace in this one."""
        copy = Conversation()
        copy.messages = bytearray(self.messages)
        copy.kept = dict(self.kept)
        copy._calls = self._calls
        return copy

    def save(self) -> tuple[bytes, dict[str, str], int]:
        """The messages, the kept results, and how many ids were given; what `restore` takes."""
        return bytes(self.messages), self.kept, self._calls

    @classmethod
    def restore(cls, messages: bytes, kept: dict[str, str], calls: int) -> Conversation:
        """A conversation that was saved."""
        restored = cls()
        restored.messages = bytearray(messages)
        restored.kept = kept
        restored._calls = calls
        return restored

    def user(self, text: str) -> None:
        """What the user says."""
        self._append({"role": "user", "content": text})

    def answer(self, text: str) -> None:
        """What the model answers."""
        self._append({"role": "assistant", "content": text})

    def new_id(self) -> str:
        """The id of the next call."""
        self._calls += 1
        return f"call{self._calls:05d}"

    def keep(self, call_id: str, content: str) -> None:
        """Keep a whole result, of which the model reads a part."""
        self.kept[call_id] = content
        size = sum(map(len, self.kept.values()))
        while size > _KEPT and len(self.kept) > 1:
            size -= len(self.kept.pop(next(iter(self.kept))))

    def calls(
        self,
        calls: list[tuple[str, str, str, dict[str, Any]]],
        *,
        text: str = "",
        empty_content: str | None = None,
        reasoning: str = "",
    ) -> None:
        """The model's calls as (id, name, arguments, extra fields)."""
        items = []
        for call_id, name, arguments, extra in calls:
            function = {"name": name, "arguments": arguments}
            items.append({"id": call_id, "type": "function", "function": function, **extra})
        message: dict[str, Any] = {"role": "assistant", "content": text if text.strip() else empty_content}
        if reasoning:
            message["reasoning_content"] = reasoning
        message["tool_calls"] = items
        self._append(message)

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
