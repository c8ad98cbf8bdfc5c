"""The tool that gives the model more of a result that was cut."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from hotloop.context.conversation import Conversation
from hotloop.errors import HotloopError
from hotloop.tools.cutting.cut import part
from hotloop.tools.running.result import ToolResult, failed

Fetch: TypeAlias = Callable[[str], Awaitable[str | None]]
"""Gives a whole result that is kept elsewhere than in memory, by the id of its call; None if it is not."""

READ_RESULT = "read_result"
DEFINITION = msgspec.json.encode(
    {
        "type": "function",
        "function": {
            "name": READ_RESULT,
            "description": "More of a result of which you were shown only a part.",
            "parameters": {
                "type": "object",
                "properties": {
                    "result": {"type": "string", "description": "Its id, such as call00001"},
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


async def read_rest(conversation: Conversation, fetch: Fetch | None, arguments: str, tokens: int) -> ToolResult:
    """The piece that these arguments of `read_result` ask for, of at most so many tokens.

    Whole results are looked for in the conversation, then `fetch` is asked for them.
    """
    try:
        wanted = _decode(arguments)
        kept = conversation.kept.get(wanted.result)
        if kept is None and fetch is not None:
            kept = await fetch(wanted.result)
        if kept is None:
            there = ", ".join(conversation.kept) or "none"
            return failed(f"There is no result {wanted.result} any more; there are: {there}. Call its tool again.")
        return ToolResult(part(kept, wanted.path, wanted.start, tokens))
    except (msgspec.MsgspecError, HotloopError) as error:
        return failed(str(error))
