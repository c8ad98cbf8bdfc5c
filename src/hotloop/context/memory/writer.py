"""Facts on their way into the file: written behind whoever tells them."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial

from hotloop.context.memory.fact import Fact
from hotloop.context.memory.place import Place
from hotloop.context.memory.stored import add
from hotloop.context.memory.worker import Worker
from hotloop.fields import require

_log = logging.getLogger("hotloop.memory")
_MOST = 10_000
_FULL = f"{_MOST:,} facts wait to be written; await memory.flush() before you tell more."


class Writer:
    """A queue of facts, written in the order in which they were told; may be used from any thread.

    `wrote` is called in another thread, with the facts of each change and its number. Facts that could not be written
    stay in the queue, and are tried again with the next.
    """

    def __init__(self, place: Place, wrote: Callable[[Sequence[Fact], int], None]) -> None:
        self._place = place
        self._wrote = wrote
        self._queue: dict[str, Fact] = {}
        self._due = 0  # the process in which a thread is going to write
        self._lock = threading.Lock()
        self._worker = Worker("hotloop memory")

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
        await self._worker.done(self._write)

    def close(self) -> None:
        """End the thread, when it has written what is in the queue."""
        self._worker.close()

    def _begin(self) -> None:
        try:
            self._worker.give(self._write_behind)
        except RuntimeError:  # the process is about to end, and there will be no other time
            self._write_behind()

    def _write_behind(self) -> None:
        try:
            self._write()
        except Exception as error:
            count = len(self._queue)
            _log.error("%d %s not written yet: %s", count, "fact" if count == 1 else "facts", error)

    def _write(self) -> None:
        with self._lock:
            self._due = 0
            batch = list(self._queue.values())
        if not batch:
            return
        change = self._place.do_sync(partial(add, facts=batch))
        self._wrote(batch, change)
        with self._lock:
            for fact in batch:
                if self._queue.get(fact.id) is fact:
                    del self._queue[fact.id]
