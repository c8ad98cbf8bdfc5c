"""A chat-completion request as the embedded engine reads it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

JsonObject = dict[str, Any]


class BadRequest(Exception):
    """The request cannot be served as it is; `str()` is a sentence for a person."""


class Function(msgspec.Struct):
    """A tool as it is offered."""

    name: str
    description: str = ""
    parameters: JsonObject = {}


class Offer(msgspec.Struct):
    """An entry of `tools`."""

    function: Function


class Called(msgspec.Struct):
    """The call of a tool in the history; `arguments` is JSON text."""

    name: str
    arguments: str = "{}"


class CallEntry(msgspec.Struct):
    """An entry of `tool_calls`."""

    function: Called


class Message(msgspec.Struct):
    """One message of the conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    tool_calls: list[CallEntry] | None = None

    @property
    def text(self) -> str:
        """The message's words."""
        return self.content or ""


class ChatRequest(msgspec.Struct):
    """The body, as far as the engine heeds it, which is what `models.request` writes; other keys are ignored."""

    messages: list[Message]
    tools: list[Offer] = []
    tool_choice: Literal["auto", "none"] = "auto"
    temperature: float | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    cache_prompt: bool = True

    @property
    def functions(self) -> list[Function]:
        """The tools that may be called."""
        return [] if self.tool_choice == "none" else [offer.function for offer in self.tools]

    def sampling(self, *, temperature: float | None = None, max_tokens: int | None = None) -> JsonObject:
        """What llama.cpp is told about sampling; the arguments stand where the request says nothing."""
        wanted = {
            "temperature": temperature if self.temperature is None else self.temperature,
            "n_predict": self.max_completion_tokens or self.max_tokens or max_tokens,
            "cache_prompt": self.cache_prompt,
        }
        return {key: value for key, value in wanted.items() if value is not None}


def read_request(body: bytes) -> ChatRequest:
    """The request in `body`. Raises BadRequest."""
    try:
        request = msgspec.json.decode(body, type=ChatRequest)
    except msgspec.DecodeError as error:
        raise BadRequest(f"The request cannot be read: {error}.") from error
    if not request.messages:
        raise BadRequest("The request has no messages.")
    return request
