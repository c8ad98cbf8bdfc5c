"""What a request brings along beside the conversation: facts from memory, and what is true only now."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from hotloop.budget import Deadline
from hotloop.context.settings import Context
from hotloop.context.zones import aside_text
from hotloop.errors import ConfigError
from hotloop.limit import stop
from hotloop.tools.running.caller import Caller
from hotloop.tools.running.progress import asking
from hotloop.trace.ledger import Ledger
from hotloop.units import NS_PER_S
from hotloop.words import counted

if TYPE_CHECKING:
    from hotloop.context.memory.memory import Fact, Memory

_log = logging.getLogger("hotloop.memory")


class Perceiving:
    """What an agent perceives beside the conversation, if there is `any`.

    A request waits for memory no longer than that allows, nor than `seconds`, counted from its beginning.
    """

    def __init__(self, context: Context, memory: Memory | None, seconds: float | None) -> None:
        self._context = context
        self._memory = memory
        self._seconds = seconds
        self.any = memory is not None or context.volatile is not None

    def recall(self, prompt: str, caller: Caller) -> Recall | None:
        """Begin to look for facts that fit the request, beside whatever is done next; None if there is no memory."""
        if self._memory is None or not caller.user:
            return None
        by_budget = self._seconds is not None and self._seconds <= self._memory.timeout
        seconds = self._seconds if by_budget and self._seconds is not None else self._memory.timeout
        return Recall(self._memory, prompt, caller, seconds, by_budget)

    async def aside(self, recall: Recall | None, caller: Caller, ledger: Ledger, deadline: Deadline) -> str:
        """What is sent last in each request of the run."""
        facts = [] if recall is None else await recall.facts(ledger, deadline)
        return aside_text(self._volatile(caller), [fact.text for fact in facts])

    def _volatile(self, caller: Caller) -> str:
        volatile = self._context.volatile
        if not callable(volatile):
            return volatile or ""
        before = asking.set(caller)
        try:
            said = volatile()
        except Exception as error:
            raise ConfigError(f"Context(volatile=...) failed: {type(error).__name__}: {error}") from error
        finally:
            asking.reset(before)
        if not isinstance(said, str):
            raise ConfigError(f"Context(volatile=...) gave {said!r}; give it a plain function that gives text.")
        return said


class Recall:
    """A search in memory that has begun; it may take `seconds`, and what comes later is left out.

    `by_budget` tells that the run's budget says so; then `over_budget` that it came too late.
    """

    def __init__(self, memory: Memory, prompt: str, caller: Caller, seconds: float, by_budget: bool) -> None:
        self._task = asyncio.create_task(memory.recall(prompt, user=caller.user, session=caller.session))
        self._end = asyncio.get_running_loop().time() + seconds
        self._by_budget = by_budget
        self.over_budget = False

    async def facts(self, ledger: Ledger, deadline: Deadline) -> list[Fact]:
        """What was found in time; the ledger says how many facts, that they came too late, or what went wrong."""
        left = max(self._end - asyncio.get_running_loop().time(), 0)
        if (most := deadline.for_tools_ns(ledger.clock())) is not None:
            self._by_budget |= most < left * NS_PER_S
            left = min(left, most / NS_PER_S)
        if not self._task.done():
            await asyncio.wait([self._task], timeout=left)
        found: list[Fact] = []
        if not self._task.done():
            self.over_budget = self._by_budget
            told = "late, left out"
        elif error := self._task.exception():
            told = f"failed, left out: {error}"
            _log.warning("What is known of the user was left out: %s", error)
        else:
            found = self._task.result()
            told = counted(len(found), "fact")
        ledger.facts["memory"] = told
        ledger.mark("memory", told)
        return found

    async def aclose(self) -> None:
        """Give it up, if it is not over."""
        await stop([self._task])
