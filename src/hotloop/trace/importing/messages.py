"""What was said in a request to a model and its reply, in whichever form a span has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from hotloop.trace.importing import names
from hotloop.trace.importing.span import Span

FLAT_TOOLS = "llm.tools."
"""How the attributes begin that have the tools of a request."""

_FLAT_INPUT = ("llm.input_messages.", "gen_ai.prompt.")
_FLAT_OUTPUT = ("llm.output_messages.", "gen_ai.completion.")
_ASKED_EVENTS = ("gen_ai.system.message", "gen_ai.user.message", "gen_ai.assistant.message", "gen_ai.tool.message")
_CHOICE_EVENT = "gen_ai.choice"
_DETAILS_EVENT = "gen_ai.client.inference.operation.details"
_WRAPPINGS = ("message", "tool_call", "function", "data", "kwargs")
_AROUND = ("messages", "output", "generations")
_CALL_TYPES = ("tool_call", "function_call")
_CALL_IDS = ("id", "call_id", "toolUseId", "toolCallId")
_DEEPEST = 12  # parts of the name of an attribute


class SpokenCall(msgspec.Struct, frozen=True, gc=False):
    """A call that a model wrote; `arguments` is JSON text."""

    call_id: str
    name: str
    arguments: str


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message: its text, and the calls in it."""

    role: str
    text: str
    calls: tuple[SpokenCall, ...] = ()


def request_text(span: Span) -> str:
    """All of a request as the span has it, what does not change first; "" if it has nothing of it."""
    attributes = _with_details(span)
    front = [text_of(names.told(attributes, each)) for each in names.FRONT]
    front += [str(attributes[key]) for key in attributes if key.startswith(FLAT_TOOLS)]
    asked = [str(attributes[key]) for key in attributes if key.startswith(_FLAT_INPUT)]
    if not asked:
        asked = [names.told_text(attributes, names.INPUT)]
    if not any(asked):
        asked = [str(event.attributes) for event in span.events if event.name in _ASKED_EVENTS]
    return "\n".join((*filter(None, front), *asked)) if any(asked) else ""


def request_messages(span: Span) -> list[Message]:
    """The messages of a request."""
    attributes = _with_details(span)
    if flat := _unflattened(attributes, _FLAT_INPUT):
        return _messages(flat)
    if found := _messages(_decoded(names.told(attributes, names.INPUT))):
        return found
    events = (event for event in span.events if event.name in _ASKED_EVENTS)
    return [_message({"role": event.name.split(".")[1], **event.attributes}) for event in events]


def reply_messages(span: Span) -> list[Message]:
    """The messages of a reply."""
    attributes = _with_details(span)
    if flat := _unflattened(attributes, _FLAT_OUTPUT):
        return _messages(flat)
    if found := _messages(_decoded(names.told(attributes, names.OUTPUT))):
        return found
    return [_message(event.attributes) for event in span.events if event.name == _CHOICE_EVENT]


def last_text(messages: Iterable[Message], role: str) -> str:
    """What somebody said last; "" for nothing."""
    texts = [message.text for message in messages if message.role == role and message.text]
    return texts[-1] if texts else ""


def _with_details(span: Span) -> Mapping[str, Any]:
    """The attributes of a span, with those that newer conventions put on an event."""
    details = next((event.attributes for event in span.events if event.name == _DETAILS_EVENT), None)
    return span.attributes if details is None else {**span.attributes, **details}


def _decoded(value: Any) -> Any:
    """The value of JSON text, and any other text as a message."""
    if not isinstance(value, str):
        return value
    try:
        decoded = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        decoded = value
    return [{"content": value}] if isinstance(decoded, str | int | float) else decoded


def _messages(value: Any) -> list[Message]:
    """Messages in a value: a list of them, an object or a list around such a list, or one of them."""
    while (inside := _inside(value)) is not None:
        value = inside
    items = value if isinstance(value, list) else [value]
    return [_message(item) for item in items if isinstance(item, dict)]


def _inside(value: Any) -> list[Any] | None:
    """The list that there is nothing but wrapping around; None if the value is not wrapped."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
        if isinstance(value, list):
            return value
    if isinstance(value, dict):
        return next((value[name] for name in _AROUND if isinstance(value.get(name), list)), None)
    return None


def _message(value: dict[str, Any]) -> Message:
    value = _unwrapped(value)
    content = value.get("parts", value.get("contents", value.get("content", value.get("message"))))
    parts = _decoded_parts(content)
    calls = [*(value.get("tool_calls") or ()), *(part for part in parts if _is_call(part))]
    role = str(value.get("role") or value.get("type") or "assistant")
    role = {"human": "user", "ai": "assistant"}.get(role, role)
    called = tuple(_call(each) for each in ([value] if _is_call(value) else calls) if isinstance(each, dict))
    return Message(role, "".join(filter(None, map(_text, parts))), called)


def _decoded_parts(content: Any) -> list[Any]:
    """The parts of a content: those of a list, also of one in JSON, or the text that it is."""
    if isinstance(content, str) and content[:1] in ("[", "{"):
        decoded = _decoded(content)
        content = decoded if isinstance(decoded, list) and all(isinstance(each, dict) for each in decoded) else content
    return content if isinstance(content, list) else [] if content is None else [content]


def _text(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    part = part.get("message_content", part)
    found = part.get("text") or (part.get("content") if part.get("type") == "text" else "")
    return found if isinstance(found, str) else ""


def _is_call(part: Any) -> bool:
    return isinstance(part, dict) and (part.get("type") in _CALL_TYPES or "toolUse" in part or "toolCallId" in part)


def _call(value: dict[str, Any]) -> SpokenCall:
    value = _unwrapped(value.get("toolUse") or value)
    call_id = next(filter(None, map(value.get, _CALL_IDS)), "")
    name = value.get("name") or value.get("toolName") or ""
    arguments = value.get("arguments", value.get("args", value.get("input")))
    return SpokenCall(str(call_id), str(name), text_of(arguments))


def _unwrapped(value: dict[str, Any]) -> dict[str, Any]:
    """A message or call with what is one level deeper, as OpenInference, OpenAI and LangChain have it."""
    for name in _WRAPPINGS:
        inside = value.get(name)
        if isinstance(inside, dict):
            value = {**value, **inside}
    return value


def joined_text(content: Any) -> str:
    """A content as text: that of its parts, if it is a list of such, also one in JSON."""
    parts = _decoded_parts(content)
    return "".join(filter(None, map(_text, parts))) or text_of(content)


def text_of(value: Any) -> str:
    """Any value of an attribute as text: strings as they are, others as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _unflattened(attributes: Mapping[str, Any], prefixes: tuple[str, ...]) -> list[dict[str, Any]]:
    """The messages that are spread over attributes like `llm.input_messages.0.message.role`."""
    tree: dict[str, Any] = {}
    for key, value in attributes.items():
        if key.startswith(prefixes):
            prefix = next(each for each in prefixes if key.startswith(each))
            _put(tree, key[len(prefix) :].split(".", _DEEPEST), value)
    listed = _listed(tree)
    return listed if isinstance(listed, list) else []


def _put(tree: dict[str, Any], path: list[str], value: Any) -> None:
    for step in path[:-1]:
        inside = tree.setdefault(step, {})
        if not isinstance(inside, dict):
            return
        tree = inside
    tree[path[-1]] = value


def _listed(value: Any) -> Any:
    """The same with a list for each mapping whose keys are numbers."""
    if not isinstance(value, dict) or not value:
        return value
    if all(key.isdecimal() for key in value):
        return [_listed(value[key]) for key in sorted(value, key=lambda key: (len(key), key))]
    return {key: _listed(each) for key, each in value.items()}
