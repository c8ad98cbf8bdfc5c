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


class Chosen(msgspec.Struct):
    """A `tool_choice` of one tool, which has to be called."""

    function: Called


class NamedSchema(msgspec.Struct):
    """The `json_schema` of a `response_format`."""

    schema: JsonObject = {}


class ResponseFormat(msgspec.Struct):
    """What an answer has to be."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema = msgspec.field(default_factory=NamedSchema)


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
    tool_choice: Literal["auto", "none"] | Chosen = "auto"
    response_format: ResponseFormat | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    cache_prompt: bool = True

    @property
    def functions(self) -> list[Function]:
        """The tools that may be called."""
        if isinstance(self.tool_choice, Chosen):
            return [self.chosen] if self.chosen is not None else []
        return [] if self.tool_choice == "none" else [offer.function for offer in self.tools]

    @property
    def chosen(self) -> Function | None:
        """The tool that has to be called."""
        name = self.tool_choice.function.name if isinstance(self.tool_choice, Chosen) else None
        return next((offer.function for offer in self.tools if offer.function.name == name), None)

    @property
    def form(self) -> Function | None:
        """What an answer is held to, as if it were the arguments of a function of this name."""
        form = self.response_format
        if form is None or form.type == "text":
            return None
        return Function("response_format", "", {"type": "object"} | form.json_schema.schema)

    @property
    def held(self) -> list[Function]:
        """All whose schemas the model may be held to."""
        return [*self.functions, *([self.form] if self.form is not None else [])]

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
    if isinstance(request.tool_choice, Chosen) and request.chosen is None:
        raise BadRequest(f"tool_choice names {request.tool_choice.function.name}, which is none of the tools.")
    return request
