"""A conversation that was kept for one service, in the words of another."""

from __future__ import annotations

from typing import Any

import msgspec

from hotloop.models.dialects import Dialect

_OF_A_CALL = ("id", "type", "function")


def translated(messages: bytes | bytearray, to: Dialect) -> bytes:
    """The same messages as the dialect `to` wants them.

    What only the service that wrote them understands (its reasoning, fields of its calls) is left out; what a turn of
    nothing but calls says is `to.empty_content`.
    """
    return b",".join(
        msgspec.json.encode(_message(each, to)) for each in msgspec.json.decode(b"".join((b"[", messages, b"]")))
    )


def _message(message: dict[str, Any], to: Dialect) -> dict[str, Any]:
    message.pop("reasoning_content", None)
    if calls := message.get("tool_calls"):
        message["content"] = message.get("content") or to.empty_content
        message["tool_calls"] = [{key: call[key] for key in _OF_A_CALL} for call in calls]
    return message
