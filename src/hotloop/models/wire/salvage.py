"""Calls that a model wrote in words its service could not read (Groq's `failed_generation`)."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from hotloop.models.reply import Call, Reply
from hotloop.models.wire.frames import decode_json, encode_json
from hotloop.trace.ledger import Usage

_END = "</function>"
_NAME = re.compile(r"[\w.-]+")
_FENCES = (("```json", "```"), ("```", "```"), ("<tool_call>", "</tool_call>"))


def salvage(text: str, tool_names: frozenset[str]) -> Reply | None:
    """The reply that the text means: calls of known tools with arguments that are whole JSON objects, or plain prose.

    None if it is neither. Nothing is repaired: arguments are taken as they stand, and still meet the tool's schema.
    """
    calls = _tagged(text, tool_names) or _listed(text, tool_names)
    if calls:
        return Reply("", calls, "tool_calls", Usage(), salvaged=True)
    if not text.strip() or "{" in text or "<function" in text:
        return None
    return Reply(text.strip(), [], "stop", Usage(), salvaged=True)


def _tagged(text: str, tool_names: frozenset[str]) -> list[Call]:
    """`name{json}</function>` and `<function=name={json}</function>`, any number of them."""
    written = [_named(part) for part in text.split(_END)[:-1]]
    calls = [Call(name, arguments) for name, arguments in written if name in tool_names and _is_object(arguments)]
    return calls if len(calls) == len(written) else []


def _named(part: str) -> tuple[str, str]:
    """The last name before the first brace, and everything from that brace on."""
    before, brace, after = part.partition("{")
    words = _NAME.findall(before.rstrip("=>) \t\n"))
    return (words[-1] if words else "", (brace + after).strip())


def _listed(text: str, tool_names: frozenset[str]) -> list[Call]:
    """A JSON call or list of calls, fenced or bare."""
    bare = text.strip()
    for opening, closing in _FENCES:
        if bare.startswith(opening):
            bare = bare.removeprefix(opening).removesuffix(closing)
            break
    try:
        value = decode_json(bare)
        items = value if isinstance(value, list) else [value]
        calls = [call for item in items if (call := _call(item, tool_names))]
    except msgspec.DecodeError:
        return []
    return calls if len(calls) == len(items) else []


def _call(item: Any, tool_names: frozenset[str]) -> Call | None:
    if not isinstance(item, dict):
        return None
    item = item["function"] if isinstance(item.get("function"), dict) else item
    name, arguments = item.get("name"), item.get("arguments", item.get("parameters", {}))
    text = arguments if isinstance(arguments, str) else encode_json(arguments).decode()
    return Call(name, text) if isinstance(name, str) and name in tool_names and _is_object(text) else None


def _is_object(text: str) -> bool:
    try:
        return isinstance(decode_json(text), dict)
    except msgspec.DecodeError:
        return False
