"""The tool that gives the model more of a result that was cut."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Annotated, TypeAlias

from msgspec import Meta

from hotloop.context.conversation import Conversation
from hotloop.errors import HotloopError
from hotloop.tools.cutting.cut import part
from hotloop.tools.defining.define import tool
from hotloop.tools.defining.tool import Tool
from hotloop.tools.running.result import ToolResult, failed

Fetch: TypeAlias = Callable[[str], Awaitable[str | None]]
"""Gives a whole result that is kept elsewhere than in memory, by the id of its call; None if it is not."""


READ_RESULT = "read_result"


async def read_result(
    result: Annotated[str, Meta(description="Its id, such as call00001")],
    path: Annotated[str, Meta(description="A part of it, such as items or items[0].text")] = "",
    start: Annotated[int, Meta(ge=0, description="The first item or character")] = 0,
) -> None:
    """More of a result of which you were shown only a part."""  # what it gives is known to the run: see `read_rest`


@cache
def reading_tool() -> Tool:
    """The tool `read_result`, made for the first agent that offers it."""
    return tool(read_result, read_only=True)


async def read_rest(
    conversation: Conversation, fetch: Fetch | None, arguments: str, bounds: Mapping[str, int], most: int
) -> ToolResult:
    """The piece that these arguments of `read_result` ask for.

    Whole results are looked for in the conversation, then `fetch` is asked for them. The piece has at most as many
    tokens as the model was shown of the result, which `bounds` tell by its id, or `most` where that is not known.
    """
    try:
        wanted = reading_tool().bind(arguments)
        call_id = wanted["result"]
        kept = conversation.kept.get(call_id)
        if kept is None and fetch is not None:
            kept = await fetch(call_id)
        if kept is None:
            return failed(f"There is no result {call_id}; give the id that its cut says, or call its tool again.")
        return ToolResult(part(kept, wanted["path"], wanted["start"], bounds.get(call_id, most)))
    except HotloopError as error:
        return failed(str(error))
