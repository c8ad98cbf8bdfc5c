"""Facts on their way into the file: written behind whoever tells them."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Sequence
from sqlite3 import Connection

from hotloop.context.memory.cache import Cache
from hotloop.context.memory.fact import Fact
from hotloop.context.memory.place import Place
from hotloop.context.memory.stored import add
from hotloop.fields import require

_log = logging.getLogger("hotloop.memory")
_MOST = 10_000
_FULL = f"{_MOST:,} facts wait to be written; await memory.flush() before you tell more."


class Writer:
    """A queue of facts, written in the order in which they were told; may be used from any thread.

    `wrote` is called with the facts that were written. Those that could not be stay in the queue, and are tried again
    with the next.
    """

    def __init__(self, place: Place, cache: Cache, wrote: Callable[[Sequence[Fact]], None]) -> None:
        self._place = place
        self._cache = cache
        self._wrote = wrote
        self._queue: dict[str, Fact] = {}
        self._due = 0  # the process in which a thread is going to write
        self._lock = threading.Lock()

    def add(self, fact: Fact) -> None:
        """Have a fact written soon. Raises ConfigError when too many wait."""
        with self._lock:
            require(len(self._queue) < _MOST or fact.id in self._queue, _FULL)
            self._queue[fact.id] = fact
            due, self._due = self._due, os.getpid()
        if due != self._due:
            self._begin()

    def waiting(self, user: str) -> list[Fact]:
        """The facts of a user that are not written yet."""
        with self._lock:
            return [fact for fact in self._queue.values() if fact.user == user]

    async def flush(self) -> None:
        """Return when all facts are written that were added before. Raises ConfigError if they cannot be."""
        if self._queue:
            self._written(await self._place.do(self._add_all))

    def _begin(self) -> None:
        """Write in a thread for which the end of the process waits: one that is at hand, if there is an event loop."""
        try:
            asyncio.get_running_loop().run_in_executor(None, self._write_behind)
        except RuntimeError:
            self._begin_alone()

    def _begin_alone(self) -> None:
        try:
            threading.Thread(target=self._write_behind, name="hotloop memory").start()
        except RuntimeError:  # the process is about to end, and there will be no other time
            self._write_behind()

    def _write_behind(self) -> None:
        try:
            self._written(self._place.do_sync(self._add_all))
        except Exception as error:
            with self._lock:
                self._due, count = 0, len(self._queue)
            _log.error("%d %s not written yet: %s", count, "fact" if count == 1 else "facts", error)

    def _add_all(self, db: Connection) -> list[Fact]:
        with self._lock:
            self._due = 0
            facts = list(self._queue.values())
        with self._cache.own(db):
            add(db, facts)
        return facts

    def _written(self, facts: Sequence[Fact]) -> None:
        self._wrote(facts)
        with self._lock:
            for fact in facts:
                if self._queue.get(fact.id) is fact:
                    del self._queue[fact.id]
