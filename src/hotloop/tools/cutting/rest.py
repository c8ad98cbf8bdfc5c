"""The tool that gives the model more of a result that was cut."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from hotloop.context.conversation import Conversation
from hotloop.errors import ToolError
from hotloop.tools.cutting.cut import part
from hotloop.tools.running.result import ToolResult, failed

READ_RESULT = "read_result"
DEFINITION = msgspec.json.encode(
    {
        "type": "function",
        "function": {
            "name": READ_RESULT,
            "description": "More of a result that was cut.",
            "parameters": {
                "type": "object",
                "properties": {
                    "result": {"type": "string", "description": "Its id, as its cut says"},
                    "path": {"type": "string", "description": "A part of it, such as items or items[0].text"},
                    "start": {"type": "integer", "minimum": 0, "description": "The first item or character"},
                },
                "required": ["result"],
                "additionalProperties": False,
            },
        },
    }
)


class _Wanted(msgspec.Struct, forbid_unknown_fields=True):
    result: str
    path: str = ""
    start: Annotated[int, Meta(ge=0)] = 0


_decode = msgspec.json.Decoder(_Wanted).decode


def read_rest(conversation: Conversation, arguments: str, limit: int) -> ToolResult:
    """The piece that these arguments of `read_result` ask for, of at most `limit` characters."""
    try:
        wanted = _decode(arguments)
        kept = conversation.kept.get(wanted.result)
        if kept is None:
            there = ", ".join(conversation.kept) or "none"
            return failed(f"There is no result {wanted.result} any more; there are: {there}. Call its tool again.")
        return ToolResult(part(kept, wanted.path, wanted.start, limit))
    except (msgspec.MsgspecError, ToolError) as error:
        return failed(str(error))
