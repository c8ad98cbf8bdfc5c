"""Request bodies, made from parts; and what is said in them."""

from __future__ import annotations

import json
from typing import Any


def body(*messages: dict[str, Any], tools: list[dict[str, Any]] | None = None, **options: Any) -> bytes:
    """A body with these messages and tools; `options` come after them."""
    offered = {"tools": tools} if tools else {}
    asked = {"model": "m", "stream": True, **offered, "messages": list(messages), **options}
    return json.dumps(asked, separators=(",", ":"), ensure_ascii=False).encode()


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def offered(name: str, description: str = "Does it.", **parameters: Any) -> dict[str, Any]:
    """A tool as it is offered to the model."""
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def said(request: dict[str, Any]) -> list[Any]:
    """What each message of a decoded request says."""
    return [message["content"] for message in request["messages"]]
