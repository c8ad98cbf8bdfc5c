"""Results of read-only tools: kept for a while, and worked for once when several ask at the same time."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Coroutine, Iterable
from typing import Any, NamedTuple
from weakref import WeakSet

from hotloop.limit import stop
from hotloop.tools.defining.tool import Tool
from hotloop.tools.running.result import ToolResult
from hotloop.units import Clock, ns

_ENTRIES = 4096
_BYTES = 64 << 20


class Key(NamedTuple):
    """A call: the tool, whose it is ("" for everybody's), its canonical arguments, and by which clock it gets old.

    The clock is part of it because virtual times of different loops cannot be compared.
    """

    tool: Tool
    whose: str
    arguments: bytes
    clock: Clock


class Kept(NamedTuple):
    """A kept result: until when (ns), what it was, how long it took (ns), and which resources it was read from."""

    until: int
    content: str
    took: int
    reads: tuple[str, ...]


class Flight:
    """One execution that any number of calls wait for. It ends when it is done, or when nobody waits any longer."""

    __slots__ = ("reads", "stale", "started", "task", "waiting")

    def __init__(self, task: asyncio.Task[ToolResult], started: int, reads: tuple[str, ...]) -> None:
        self.task = task
        self.started = started
        self.reads = reads
        self.waiting = 0
        self.stale = False  # what it reads was written meanwhile, or nobody waits for it any more

    async def wait(self) -> ToolResult:
        """Its result. Whoever is cancelled leaves; the last to leave stops it, and goes when it has ended."""
        self.waiting += 1
        try:
            return await asyncio.shield(self.task)
        finally:
            self.waiting -= 1
            if not self.waiting:
                await self._end()

    async def _end(self) -> None:
        self.stale = True
        while not self.task.done():
            try:
                await stop([self.task])
            except asyncio.CancelledError:  # whoever cancels twice has been heard the first time
                continue


class ResultCache:
    """At most so many results and bytes of them, the least recently used dropped first; `dropped` counts those.

    Kept results are safe between threads; an execution is joined only on the event loop that it runs on.
    """

    def __init__(self, entries: int = _ENTRIES, size: int = _BYTES) -> None:
        self.dropped = 0
        self._most, self._most_bytes = entries, size
        self._bytes = 0
        self._kept: OrderedDict[Key, Kept] = OrderedDict()
        self._readers: dict[str, set[Key]] = {}
        self._flights: dict[tuple[Key, asyncio.AbstractEventLoop], Flight] = {}
        self._lock = threading.Lock()
        _caches.add(self)

    def get(self, key: Key) -> Kept | None:
        """What is kept under this key, unless its time is over."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                return None
            if kept.until <= key.clock():
                self._drop(key)
                return None
            self._kept.move_to_end(key)
            return kept

    def put(self, key: Key, content: str, ttl: float, took: int, reads: tuple[str, ...] = ()) -> None:
        """Keep this content, read from the resources `reads` in `took` nanoseconds, for `ttl` seconds."""
        size = _size(key, content)
        with self._lock:
            if key in self._kept:
                self._drop(key)
            if size > self._most_bytes:
                self.dropped += 1
                return
            self._kept[key] = Kept(key.clock() + ns(ttl), content, took, reads)
            self._bytes += size
            for name in reads:
                self._readers.setdefault(name, set()).add(key)
            while len(self._kept) > self._most or self._bytes > self._most_bytes:
                self._drop(next(iter(self._kept)))
                self.dropped += 1

    def flight(self, key: Key) -> Flight | None:
        """The execution of this very call that is under way on this event loop, to be joined."""
        flight = self._flights.get((key, asyncio.get_running_loop()))
        return None if flight is None or flight.stale or flight.task.done() else flight

    def fly(self, key: Key, work: Coroutine[Any, Any, ToolResult], ttl: float | None, reads: tuple[str, ...]) -> Flight:
        """Begin an execution that others may join; what it gives is kept for `ttl` seconds, unless it failed."""
        loop = asyncio.get_running_loop()
        flight = self._flights[key, loop] = Flight(loop.create_task(work), key.clock(), reads)

        def land(task: asyncio.Task[ToolResult]) -> None:
            if self._flights.get((key, loop)) is flight:
                self._flights.pop((key, loop), None)
            if ttl and not flight.stale and not task.cancelled() and task.exception() is None:
                result = task.result()
                if not result.failed and not result.fallback:
                    self.put(key, result.content, ttl, key.clock() - flight.started, reads)

        flight.task.add_done_callback(land)
        return flight

    def forget(self, key: Key) -> None:
        """Drop what is kept under this key, and let nobody join who is having it now."""
        with self._lock:
            if key in self._kept:
                self._drop(key)
        if (flight := self.flight(key)) is not None:
            flight.stale = True

    def invalidate(self, names: Iterable[str]) -> None:
        """These resources were written: drop what was read from them, and let nobody join who is reading them now."""
        names = set(names)
        with self._lock:
            for name in names:
                for key in list(self._readers.get(name, ())):
                    self._drop(key)
        for flight in list(self._flights.values()):
            if not names.isdisjoint(flight.reads):
                flight.stale = True

    def _drop(self, key: Key) -> None:
        kept = self._kept.pop(key)
        self._bytes -= _size(key, kept.content)
        for name in kept.reads:
            self._readers[name].discard(key)
            if not self._readers[name]:
                del self._readers[name]


def invalidate(names: Iterable[str]) -> None:
    """Drop what was read from these resources, whichever agent of the process has it."""
    for cache in list(_caches):
        cache.invalidate(names)


def _size(key: Key, content: str) -> int:
    return len(key.arguments) + (len(content) if content.isascii() else 4 * len(content))


_caches: WeakSet[ResultCache] = WeakSet()
shared = ResultCache()
"""What the tools of all agents of this process share, by session, by user, or with everybody."""
