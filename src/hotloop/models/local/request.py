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
    id: str = ""


class Part(msgspec.Struct):
    """A piece of a message's content; only text can be read."""

    type: str = "text"
    text: str = ""


class Message(msgspec.Struct):
    """One message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = None
    tool_calls: list[CallEntry] | None = None
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        """The message's words. Raises BadRequest for pictures and sounds."""
        if not isinstance(self.content, list):
            return self.content or ""
        if other := [part.type for part in self.content if part.type != "text"]:
            raise BadRequest(f"The embedded model reads text only; a message has content of type {other[0]!r}.")
        return "".join(part.text for part in self.content)


class ChatRequest(msgspec.Struct):
    """The body, as far as the engine heeds it; other keys are ignored, as services do."""

    messages: list[Message]
    tools: list[Offer] = []
    tool_choice: str | JsonObject | None = None
    response_format: JsonObject | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    cache_prompt: bool = True
    stream: bool = False

    @property
    def functions(self) -> list[Function]:
        """The tools that may be called: none if the request forbids it, one if it demands that one."""
        offered = [offer.function for offer in self.tools]
        if self.tool_choice == "none":
            return []
        if isinstance(self.tool_choice, dict):
            wanted = self.tool_choice.get("function", {}).get("name")
            return [function for function in offered if function.name == wanted]
        return offered

    @property
    def must_call(self) -> bool:
        """Whether the reply has to be a call."""
        return self.tool_choice == "required" or isinstance(self.tool_choice, dict)

    @property
    def answer_schema(self) -> JsonObject | None:
        """The JSON Schema that an answer in text must meet, if any."""
        wanted = self.response_format or {}
        if wanted.get("type") == "json_schema":
            schema: JsonObject = wanted.get("json_schema", {}).get("schema", {})
            return schema
        return {"type": "object"} if wanted.get("type") == "json_object" else None

    @property
    def held(self) -> list[Function]:
        """Everything with a schema that the reply must meet."""
        schema = self.answer_schema
        return [*self.functions, Function("response_format", parameters=schema)] if schema else self.functions

    def sampling(self, *, temperature: float | None = None, max_tokens: int | None = None) -> JsonObject:
        """What llama.cpp is told about sampling; the arguments stand where the request says nothing."""
        wanted = {
            "temperature": temperature if self.temperature is None else self.temperature,
            "top_p": self.top_p,
            "seed": self.seed,
            "stop": [self.stop] if isinstance(self.stop, str) else self.stop,
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
