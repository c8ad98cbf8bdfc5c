"""Calls that a model wrote in words its service could not read (Groq's `failed_generation`)."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from hotloop.models.reply import Call, Reply
from hotloop.trace.ledger import Usage

_TAGGED = re.compile(r"(?:<function[=(]\s*)?([\w.-]+)\s*[=>)]*\s*(\{.*?\})\s*</function>", re.DOTALL)
_FENCE = re.compile(r"^\s*(?:<tool_call>|```(?:json)?)\s*(.*?)\s*(?:</tool_call>|```)?\s*$", re.DOTALL)


def salvage(text: str, tool_names: frozenset[str]) -> Reply | None:
    """The reply that the text means: calls of known tools with arguments that are whole JSON objects, or plain prose.

    None if it is neither. Nothing is repaired: arguments are taken as they stand, and still meet the tool's schema.
    """
    if not text.strip():
        return None
    calls = _tagged(text, tool_names) or _listed(text, tool_names)
    if calls:
        return Reply("", calls, "tool_calls", Usage(), salvaged=True)
    if "{" in text or "<function" in text:
        return None
    return Reply(text.strip(), [], "stop", Usage(), salvaged=True)


def _tagged(text: str, tool_names: frozenset[str]) -> list[Call]:
    """`name{json}</function>` and `<function=name={json}</function>`."""
    found = _TAGGED.findall(text)
    calls = [Call(name, arguments) for name, arguments in found if name in tool_names and _is_object(arguments)]
    return calls if len(calls) == len(found) else []


def _listed(text: str, tool_names: frozenset[str]) -> list[Call]:
    """A JSON call or list of calls, fenced or bare."""
    fenced = _FENCE.match(text)
    try:
        value = msgspec.json.decode(fenced[1] if fenced else text)
    except msgspec.DecodeError:
        return []
    items = value if isinstance(value, list) else [value]
    calls = [call for item in items if (call := _call(item, tool_names))]
    return calls if len(calls) == len(items) else []


def _call(item: Any, tool_names: frozenset[str]) -> Call | None:
    if not isinstance(item, dict):
        return None
    item = item.get("function") if isinstance(item.get("function"), dict) else item
    name = item.get("name")
    arguments = item.get("arguments", item.get("parameters", {}))
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    return Call(name, text) if name in tool_names and _is_object(text) else None


def _is_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except msgspec.DecodeError:
        return False
