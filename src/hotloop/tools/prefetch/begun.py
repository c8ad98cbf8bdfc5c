"""One call that was begun ahead: its way from the start to its result, its end, or whoever asks for it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from hotloop.errors import AuditError
from hotloop.limit import Limit
from hotloop.models.transport import nobody
from hotloop.tools.prefetch.history import Ahead
from hotloop.tools.prefetch.past import Past, Seen
from hotloop.tools.prefetch.stored import Known
from hotloop.tools.running.cache import Flight, Kept, Key, ResultCache
from hotloop.tools.running.execution import FOREVER, Execution, PreparedTool
from hotloop.tools.running.graph import resources
from hotloop.tools.running.threads import MOST_AHEAD, pool_ahead
from hotloop.units import NS_PER_S, ms

if TYPE_CHECKING:
    from hotloop.tools.audit.log import AuditLog
    from hotloop.tools.running.job import RunContext

_log = logging.getLogger("hotloop.tools")

_KEPT = 60.0  # seconds for which a result without a ttl waits for the reply at most
_room = threading.BoundedSemaphore(MOST_AHEAD)


class Begun(msgspec.Struct, eq=False):
    """A call that may be begun ahead, and then was. Times are nanoseconds of the run's clock, 0 for not yet.

    It is expected in the reply of a `turn`, after this `past`, which is so `sure` with the call itself: it may be one
    that has not come about yet, with the call of `parent` in it.
    """

    known: Known
    past: Past
    sure: float
    parent: Begun | None
    prepared: PreparedTool
    arguments: dict[str, Any]
    cache: ResultCache
    key: Key
    turn: int
    call_id: str = ""
    start: int = 0
    end: int = 0
    won: int = 0
    used: bool = False
    landed: bool = False
    failed: bool = False
    stale: bool = False
    content: str | None = None
    task: asyncio.Task[None] | None = None

    @property
    def idle(self) -> bool:
        """Whether it is at work, may go on, and nobody has asked for it."""
        return not self.end and not self.used and self.task is not None and not self.task.cancelling()

    @property
    def own(self) -> bool:
        """Whether its result is for this run's next turn alone."""
        return not self.prepared.ttl

    @property
    def seen(self) -> Seen:
        """The call as if it had been made."""
        arguments = msgspec.json.decode(self.key.arguments)
        return Seen(self.prepared.tool.name, arguments, self.content, self.failed, read_only=True)

    def begin(self, run: RunContext, audit: AuditLog | None, then: Callable[[Begun], None]) -> bool:
        """Begin it, with what is to be done `then`, if it has its result before it is asked for.

        False if its result is known or being had, or if there is no time or no room for it.
        """
        known = self.cache.get(self.key) or self.cache.flight(self.key)
        if known is not None or run.deadline.answer_now(run.ledger.clock()) or not self._has_thread():
            return False
        if not _room.acquire(blocking=False):
            return False
        self.task = asyncio.get_running_loop().create_task(self._work(run, audit, then))
        self.task.add_done_callback(lambda _: _room.release())
        return True

    def find(self, now: int) -> Kept | Flight | None:
        """Its result, or its flight, for the call of the model that it is; None if that is not to be had."""
        if not self.start:  # the call of the model is the first of the two
            self.stop()
            return None
        found = None if self.stale else self.cache.get(self.key) or self.cache.flight(self.key)
        if found is not None and not self.used:
            self.used, self.won = True, (self.end or now) - self.start
        return found

    def spoil(self) -> None:
        """Its time is over, or what it has read may have been changed: no other call is to have it."""
        if not self.used:
            self.stop()
        if self.own or not self.used:
            self.cache.forget(self.key)
        self.stale = True

    def stop(self) -> None:
        """Nobody will ask for it; whoever ends the run waits until it has ended."""
        if self.task is not None:
            self.task.cancel()

    def facts(self, start: int) -> Ahead:
        """What came of it, in a run that began at `start`."""
        return Ahead(
            self.call_id,
            self.prepared.tool.name,
            self.turn,
            ms(self.start - start),
            ms(self.end - self.start),
            self.known.context,
            self.known.name,
            self.used,
            self.failed,
            ms(self.won),
        )

    def _has_thread(self) -> bool:
        """Whether it would begin at once; no plain function can be stopped, and none is to wait for one that hangs."""
        tool = self.prepared.tool
        return tool.is_async or tool.sandbox is not None or pool_ahead().free > 0

    async def _work(self, run: RunContext, audit: AuditLog | None, then: Callable[[Begun], None]) -> None:
        self.start = run.ledger.clock()
        if audit is None:
            await self._fly(run)
        else:
            await self._fly_on_record(run, audit)
        if self.landed and not (self.failed or self.used or self.stale):
            then(self)

    async def _fly_on_record(self, run: RunContext, audit: AuditLog) -> None:
        tool, counts = self.prepared.tool, self.known.counts
        why = f"It came next {counts.hits:.0f} of {counts.chances:.0f} times."
        try:
            audit.decision(run.caller, tool.name, self.call_id, self.arguments, tool.secrets, "prefetched", why)
            try:
                await self._fly(run)
            finally:
                outcome = "error" if self.failed else "ok" if self.landed else "cancelled"
                audit.outcome(run.caller, tool.name, self.call_id, outcome, ms(self.end - self.start))
        except AuditError as error:  # the call of the model tells the same to whoever waits for it
            _log.error("%s", error)

    async def _fly(self, run: RunContext) -> None:
        clock, tool = run.ledger.clock, self.prepared.tool
        execution = Execution(self.prepared, self.arguments, run.caller, self.call_id, clock, nobody, FOREVER)
        execution.ahead = True
        reads = tuple(each.text for each in resources(tool.reads, self.arguments))
        flight = self.cache.fly(self.key, execution.run(), self.prepared.ttl or _KEPT, reads)
        left = run.deadline.for_tools_ns(self.start)
        try:
            with Limit(None if left is None else left / NS_PER_S, asyncio.get_running_loop()):
                result = await flight.wait()
            self.landed, self.failed = True, bool(result.failed or result.fallback)
            self.content = result.content
        except TimeoutError:
            self.failed = True
        finally:
            self.end = clock()
