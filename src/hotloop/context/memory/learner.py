"""Vectors for facts that have none: of new facts, and of those that were told before there was an embedding."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from hotloop.context.memory.meaning import Meaning, packed
from hotloop.context.memory.place import Place
from hotloop.context.memory.stored import add_vectors, without_vectors
from hotloop.context.memory.worker import Worker
from hotloop.limit import Limit

_log = logging.getLogger("hotloop.memory")
_BATCH = 64
_PATIENCE = 5.0  # seconds for a function that is at work when all ends

Learned = Callable[[str, Mapping[str, bytes], int], None]


class Learner:
    """Embeds facts beside everything else, a few at a time.

    `learned` is called in another thread, with a user, vectors by the ids of facts, and the number of the change.
    """

    def __init__(self, place: Place, meaning: Meaning, learned: Learned) -> None:
        self._place = place
        self.meaning = meaning
        self._learned = learned
        self._due: set[str] = set()
        self._lock = threading.Lock()
        self._worker = Worker("hotloop embedding")

    def look_at(self, user: str) -> None:
        """Some facts of this user may have no vector."""
        with self._lock:
            if user in self._due:
                return
            self._due.add(user)
        with suppress(RuntimeError):  # the process is about to end: there will be another time
            self._worker.give(partial(self._learn, user))

    async def flush(self) -> None:
        """Return when a few facts at least of each user are embedded that was given before."""
        await self._worker.done(bool)

    async def aclose(self) -> None:
        """Leave what has not been begun for another time, and end the thread."""
        with self._lock:
            self._due.clear()
        with suppress(TimeoutError), Limit(_PATIENCE, asyncio.get_running_loop()):
            await self.flush()
        self._worker.close()

    def _learn(self, user: str) -> None:
        with self._lock:
            if user not in self._due:
                return
            self._due.discard(user)
        try:
            if self._learn_some(user) == _BATCH:
                self.look_at(user)
        except Exception as error:
            _log.warning("Facts could not be embedded, so that their words alone count: %r", error)

    def _learn_some(self, user: str) -> int:
        find = partial(without_vectors, user=user, maker=self.meaning.maker, most=_BATCH)
        facts = self._place.do_sync(find)
        if facts:
            vectors = packed(self.meaning.of([text for _, _, text in facts]))
            kept = dict(zip((number for number, _, _ in facts), vectors, strict=True))
            change = self._place.do_sync(partial(add_vectors, user=user, maker=self.meaning.maker, vectors=kept))
            known = dict(zip((name for _, name, _ in facts), vectors, strict=True))
            self._learned(user, known, change)
        return len(facts)
