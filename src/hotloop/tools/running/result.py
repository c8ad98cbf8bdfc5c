"""What the model reads of a call, and in which words it is told that one failed."""

from __future__ import annotations

import logging

import msgspec

from hotloop.errors import BudgetExceeded, ToolError
from hotloop.tools.defining.tool import Tool

_log = logging.getLogger("hotloop.tools")


class ToolResult(msgspec.Struct, frozen=True, gc=False):
    """What the model reads of a call; `failed` is the error's text, "" if there was none.

    `retryable` tells that the same call may yet succeed: a tool that says by a ToolError why it could not, could not.
    `fallback` tells that something stood in for the tool, whose time was over. Where the model reads only a part, or a
    summary, `whole` is all of it.
    """

    content: str
    failed: str = ""
    retryable: bool = False
    fallback: bool = False
    whole: str | None = None

    def unshaped(self) -> ToolResult:
        """The result as the tool gave it, for whatever else needs it than the model."""
        return self if self.whole is None else msgspec.structs.replace(self, content=self.whole, whole=None)


def failed(reason: str, retryable: bool = False) -> ToolResult:
    """The result of a call that failed for this reason."""
    return ToolResult(msgspec.json.encode({"error": reason}).decode(), reason, retryable)


def failure(tool: Tool, error: Exception | SystemExit) -> ToolResult:
    """What the model is told of a tool's failure; one that the tool did not foresee is logged too."""
    words = words_of(error)
    if isinstance(error, ToolError):
        return failed(words or f"{tool.name} failed.", error.retryable)
    reason = f"{tool.name} failed: {type(error).__name__}{words and f': {words}'}"
    expected = isinstance(error, BudgetExceeded)  # of an agent in the tool: where in it the time ended says nothing
    _log.warning("The tool %s", reason, exc_info=None if expected else error)
    return failed(reason, retryable=True)


def words_of(error: BaseException) -> str:
    """The error's text, as far as it has one."""
    try:
        return encodable(str(error))
    except Exception:
        return ""


def encodable(text: str) -> str:
    """The text so that UTF-8 can carry it: file names, for one, may have odd bytes."""
    return text.encode(errors="backslashreplace").decode()
