"""Tools by which a model remembers: what it keeps, looks up and forgets is of the user whose run it works for."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from hotloop.context.memory.fact import LONGEST, fact_id
from hotloop.context.memory.memory import Memory
from hotloop.errors import ConfigError, ToolError
from hotloop.tools.defining.define import tool
from hotloop.tools.defining.tool import Tool
from hotloop.tools.running.progress import caller

_NOBODY = "Nothing is kept: this run names no user whose it would be."
_UNKNOWN = "Nothing is kept in these words. What comes nearest: {}. Call forget with the words of one of them."
_NOTHING = "Nothing is kept of this user."
_HERE = "facts of the user"  # what some of the tools write and another one reads

Words = Annotated[str, Meta(min_length=1, max_length=LONGEST)]


def memory_tools(memory: Memory) -> list[Tool]:
    """The tools `remember`, `recall` and `forget` for this memory; a run without a user is told that it has none."""

    @tool(idempotent=True, writes=[_HERE], status="Remembering: {fact}")
    async def remember(fact: Words) -> str:
        """Keep a lasting fact about the user for later conversations, in one sentence that can be read by itself."""
        try:
            memory.remember(fact, user=_user())
        except ConfigError as error:
            raise ToolError(str(error)) from error
        return "kept"

    @tool(read_only=True, scope="run", reads=[_HERE], status="Looking up: {about}")
    async def recall(about: Words) -> list[str]:
        """Facts that are kept about the user, those first that fit what is asked about."""
        found = await memory.recall(about, user=_user(), session=caller().session)
        return [fact.text for fact in found]

    @tool(idempotent=True, writes=[_HERE], status="Forgetting: {fact}")
    async def forget(fact: Words) -> str:
        """Delete a fact about the user that is kept in exactly these words."""
        user, session = _user(), caller().session
        for each in dict.fromkeys(("", session)):
            if await memory.forget(fact_id(fact, user, each), user=user):
                return "deleted"
        near = [found.text for found in await memory.recall(fact, user=user, session=session)]
        raise ToolError(_UNKNOWN.format(", ".join(f'"{text}"' for text in near)) if near else _NOTHING)

    return [remember, recall, forget]


def _user() -> str:
    user = caller().user
    if not user:
        raise ToolError(_NOBODY)
    return user
