"""A call of a tool, read from its span: which one, with which arguments, and what came of it."""

from __future__ import annotations

from typing import Any

import msgspec

from hotloop.trace.importing import names
from hotloop.trace.importing.asked import error_of, is_cancelled
from hotloop.trace.importing.messages import joined_text, text_of
from hotloop.trace.importing.names import told, told_text
from hotloop.trace.importing.span import Span
from hotloop.trace.importing.tree import Node

_ARGUMENTS_EVENT, _RESULT_EVENT = "gen_ai.tool.message", "gen_ai.choice"
_AROUND = ("data", "kwargs", "update")


class Called(msgspec.Struct, frozen=True, gc=False):
    """One call of a tool: `call_id` is "" if the span does not tell it; `result` is what the model read."""

    node: Node
    name: str
    call_id: str
    arguments: str
    result: str
    outcome: str


def read_called(node: Node) -> Called:
    """The call of a tool's node."""
    span = node.span
    result = told(span.attributes, names.RESULT)
    if result is None:
        result = _event(span, _RESULT_EVENT, "message")
    message = _tool_message(result)
    call_id = told_text(span.attributes, names.CALL_ID) or _text(message.get("tool_call_id"))
    arguments = told(span.attributes, names.ARGUMENTS)
    if arguments is None:
        arguments = _event(span, _ARGUMENTS_EVENT, "content")
    content = message.get("content", result)
    name = told_text(span.attributes, names.TOOL) or span.name
    return Called(node, name, call_id, text_of(arguments), joined_text(content), _outcome(span, message))


def _event(span: Span, name: str, key: str) -> Any:
    return next((event.attributes.get(key) for event in span.events if event.name == name), None)


def _tool_message(result: Any) -> dict[str, Any]:
    """The message that a result is in, as LangChain has it; {} if it is in none."""
    if not isinstance(result, str) or '"tool_call_id"' not in result:
        return {}
    try:
        value = msgspec.json.decode(result)
    except (msgspec.DecodeError, RecursionError):
        return {}
    while isinstance(value, dict) and "tool_call_id" not in value:
        value = next((value[name] for name in _AROUND if name in value), None)
    return value if isinstance(value, dict) else {}


def _outcome(span: Span, message: dict[str, Any]) -> str:
    error = error_of(span)
    if is_cancelled(error):
        return "cancelled"
    failed = error or message.get("status") == "error" or span.attributes.get(names.TOOL_STATUS) == "error"
    return "error" if failed else "ok"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
