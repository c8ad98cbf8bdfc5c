"""What the model reads of a result: the parts that its tool keeps, in at most so many tokens, cut or summarized."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple, TypeAlias

import msgspec

from hotloop.limit import Limit
from hotloop.models.sizes import text_tokens
from hotloop.tools.cutting.cut import cut, value_of
from hotloop.tools.cutting.keep import Keep
from hotloop.tools.running.execution import PreparedTool
from hotloop.tools.running.job import Job, RunContext
from hotloop.tools.running.result import ToolResult
from hotloop.trace.ledger import AttemptFacts
from hotloop.units import NS_PER_S
from hotloop.words import short

_log = logging.getLogger("hotloop.tools")

SummarizeText: TypeAlias = Callable[[str, int, list[AttemptFacts]], Awaitable[str]]
"""Gives a summary of a text in at most so many tokens; notes the requests that it took."""

_LONG = 256 * 1024  # characters of a result from which shaping it is no work for the event loop
_MORE = "more with read_result {}"
_REST = 'Call read_result with result "{}" for the rest.'
_NARROWER = "Ask for less of it."
_MEMBER = 4  # tokens around a mark in an object or a list
_SUMMARY = "\n[summary of {:,} tokens; all of it with read_result {}]"
_ASKED = 1000  # characters of a request or of arguments that steer a summary
_TO_SUMMARISE = "The user asked: {}\nFor that, {} was called with {}\n\n{}"


class Shaper(NamedTuple):
    """How an agent shapes results: whether the model can read what is left out, and who summarizes."""

    readable: bool
    summarize: SummarizeText | None = None

    async def shape(self, job: Job, full: ToolResult, run: RunContext) -> tuple[ToolResult, str]:
        """As much of a call's result as the model is to read, and how it came to that, "" for all of it.

        If it is not all, all is kept in the conversation, to be read on in pieces within the same bound.
        """
        prepared = job.prepared
        if prepared is None or full.whole is not None or len(full.content) <= prepared.short:
            return full, ""
        show = partial(self._shown, job.call_id, prepared, full)
        shown, how = await asyncio.to_thread(show) if len(full.content) > _LONG else show()
        if not how:
            return full, ""
        if self.summarize is not None and prepared.tool.summarize and value_of(shown) is shown:
            summary, how = await _summary(self.summarize, job, prepared, full.content, run)
            shown = summary or shown
        if self.readable:
            run.conversation.keep(job.call_id, full.content)
            run.bounds[job.call_id] = prepared.max_result
        return msgspec.structs.replace(full, content=shown, whole=full.content), how

    def _shown(self, call_id: str, prepared: PreparedTool, full: ToolResult) -> tuple[str, str]:
        """The parts that are kept, or all of it, cut if that is too long; and how it came to that."""
        keep, most, rest = prepared.tool.keep, prepared.max_result, _REST if self.readable else _NARROWER
        parts = None if keep is None or full.failed else keep.of(full.content)
        if keep is not None and parts is not None:
            return _parts(keep, parts, full.content, call_id, most)
        if text_tokens(full.content) <= most:
            return full.content, ""
        return cut(full.content, most, rest.format(call_id)), "cut"


def _parts(keep: Keep, parts: str, whole: str, call_id: str, most: int) -> tuple[str, str]:
    """The kept parts, with a mark that says how to have the rest, and how they came about."""
    mark = _MORE.format(call_id)
    if text_tokens(shown := keep.marked(parts, mark)) <= most:
        return shown, "parts"
    parts = keep.in_order(whole)
    if text_tokens(shown := keep.marked(parts, mark)) <= most:
        return shown, "parts"
    return cut(parts, max(most - text_tokens(mark) - _MEMBER, 1), _REST.format(call_id)), "parts, cut"


async def _summary(
    summarize: SummarizeText, job: Job, prepared: PreparedTool, text: str, run: RunContext
) -> tuple[str, str]:
    """A summary that fits the tool's bound, "" if there is none; and a note of that."""
    mark = _SUMMARY.format(text_tokens(text), job.call_id)
    asked = _TO_SUMMARISE.format(short(run.prompt, _ASKED), job.name, short(job.text, _ASKED), text)
    most = prepared.max_result - text_tokens(mark) - 1
    ask = partial(summarize, asked, most, run.ledger.attempts)
    summary, note = await _asked(ask, most, _seconds(prepared, run))
    return summary and summary + mark, note


def _seconds(prepared: PreparedTool, run: RunContext) -> float | None:
    """How long a summary may take: as long as the tool, or less when the run's deadline comes first."""
    left = run.deadline.for_tools_ns(run.ledger.clock())
    times = [prepared.timeout, None if left is None else left / NS_PER_S]
    return min((seconds for seconds in times if seconds is not None), default=None)


async def _asked(ask: Callable[[], Awaitable[str]], most: int, seconds: float | None) -> tuple[str, str]:
    """The summary and a note of it, or "" and a note of why there is none."""
    if most < 1 or seconds == 0:
        return "", f"cut: no {'room' if most < 1 else 'time'} for a summary"
    limit = Limit(seconds, asyncio.get_running_loop())
    try:
        with limit:
            summary = (await ask()).strip()
    except asyncio.CancelledError:
        if limit.cancelled:
            raise
        return "", "cut: the summary was given up"
    except Exception as error:
        if limit.expired and isinstance(error, TimeoutError):
            return "", f"cut: no summary within {limit.seconds:g} s"
        _log.warning("A long result is cut, because it could not be summarized: %r", error, exc_info=error)
        return "", f"cut: the summary failed: {type(error).__name__}"
    if not summary or text_tokens(summary) > most:
        return "", f"cut: the summary was {'too long' if summary else 'empty'}"
    return summary, "summarized"
