"""What texts mean, as directions in space; imported only where there is an embedding, for it needs numpy."""

from __future__ import annotations

import asyncio
import atexit
import logging
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from functools import partial
from sqlite3 import Connection
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hotloop.context.memory.cache import Cache
from hotloop.context.memory.place import Place
from hotloop.context.memory.stored import add_vectors, without_vectors
from hotloop.embedding import Embed, directions, embed_locally
from hotloop.errors import ConfigError
from hotloop.limit import Limit
from hotloop.sqlitefile import BUSY_SECONDS

T = TypeVar("T")
_log = logging.getLogger("hotloop.memory")
_BATCH = 64
_PATIENCE = BUSY_SECONDS  # for an embedding that is at work when all ends
_HANGS = "An embedding has been at work for %.0f s, which is not waited for: its facts are embedded another time."
_AT_ONCE = 32  # requests that are embedded; of more, each would be late


class Meaning:
    """What texts mean by the function `embed`; `maker` tells its vectors from those of others."""

    def __init__(self, embed: Embed) -> None:
        self.maker = "local" if embed is embed_locally else _name(embed)
        self._embed = embed
        self._length: int | None = None  # of all vectors, as the first one has it
        self._aside = _Daemons()

    def of(self, texts: Sequence[str]) -> NDArray[Any]:
        """The directions of texts, a row for each. Raises what the function raises, and ValueError."""
        found = directions(self._embed, texts, self._length)
        self._length = found.shape[1]
        return found

    async def of_request(self, request: str, seconds: float | None) -> NDArray[Any] | None:
        """The direction of a request; None if it cannot be had in this time, so that its words alone count."""
        loop = asyncio.get_running_loop()
        limit = Limit(seconds, loop)
        try:
            with limit:
                found: NDArray[Any] = (await loop.run_in_executor(self._aside, self.of, [request]))[0]
                return found
        except ConfigError:
            raise
        except Exception as error:
            why = "it took too long" if limit.expired else repr(error)
            _log.warning("A request could not be embedded, so that its words alone count: %s", why)
            return None


class Learner:
    """Embeds facts that have no vector beside everything else, a few at a time.

    Those are new ones, and those that were told before there was this embedding.
    """

    def __init__(self, place: Place, cache: Cache, meaning: Meaning) -> None:
        self.meaning = meaning
        self._place = place
        self._cache = cache
        self._due: dict[str | threading.Event, None] = {}  # users, and who waits for those before
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def look_at(self, user: str) -> None:
        """Some facts of this user may have no vector."""
        self._put(user)

    async def flush(self) -> None:
        """Return when a few facts at least of each user are embedded that was given before, or it takes too long."""
        reached = threading.Event()
        self._put(reached)
        if not await asyncio.to_thread(reached.wait, _PATIENCE):
            _log.warning(_HANGS, _PATIENCE)

    async def aclose(self) -> None:
        """Leave what has not been begun for another time."""
        with self._lock:
            self._due = {due: None for due in self._due if not isinstance(due, str)}
        await self.flush()

    def _put(self, due: str | threading.Event) -> None:
        with self._lock, suppress(RuntimeError):  # the process is about to end: there will be another time
            self._due[due] = None
            if self._thread is None or not self._thread.is_alive():  # as in a forked child
                self._thread = threading.Thread(target=self._work, name="hotloop embedding", daemon=True)
                self._thread.start()
                _at_work.add(self._thread)

    def _work(self) -> None:
        while (due := self._next()) is not None:
            if isinstance(due, str):
                self._learn(due)
            else:
                due.set()

    def _next(self) -> str | threading.Event | None:
        with self._lock:
            if self._due and not _ending.is_set():
                due = next(iter(self._due))
                del self._due[due]
                return due
            self._thread = None
            return None

    def _learn(self, user: str) -> None:
        try:
            facts = self._place.do_sync(partial(without_vectors, user=user, maker=self.meaning.maker, most=_BATCH))
            if facts:
                vectors = packed(self.meaning.of([text for _, _, text in facts]))
                self._place.do_sync(partial(self._keep, user, list(zip(facts, vectors, strict=True))))
            if len(facts) == _BATCH:
                self.look_at(user)
        except Exception as error:
            _log.warning("Facts could not be embedded, so that their words alone count: %r", error)

    def _keep(self, user: str, known: Sequence[tuple[tuple[int, str, str], bytes]], db: Connection) -> None:
        with self._cache.own(db):
            add_vectors(db, self.meaning.maker, {number: vector for (number, _, _), vector in known})
            self._cache.learned(user, {name: vector for (_, name, _), vector in known})


def nearest(vectors: Sequence[bytes], direction: NDArray[Any], limit: int) -> list[int]:
    """The places of the `limit` kept vectors that are nearest to this direction, the nearest first."""
    form = _form(len(direction))
    places = [place for place, vector in enumerate(vectors) if len(vector) == form.itemsize]  # others it made before
    kept = np.frombuffer(b"".join(vectors[place] for place in places), form)
    cosines = kept["values"].astype(np.float32) @ direction * kept["scale"]
    return [places[place] for place in np.argsort(-cosines, kind="stable")[:limit]]


def packed(directions: NDArray[Any]) -> list[bytes]:
    """The rows, each as it is kept: a byte for each number, which changes a cosine by a thousandth or two."""
    scales = np.abs(directions).max(axis=1, keepdims=True) / 127
    scales[scales == 0] = 1
    kept = np.empty(len(directions), _form(directions.shape[1]))
    kept["scale"], kept["values"] = scales[:, 0], np.rint(directions / scales)
    return [row.tobytes() for row in kept]


def _form(length: int) -> np.dtype[Any]:
    return np.dtype([("scale", "<f4"), ("values", "i1", length)])


def _name(embed: Any) -> str:
    kind = embed if hasattr(embed, "__qualname__") else type(embed)
    return f"{kind.__module__}.{kind.__qualname__}"


class _Daemons(Executor):
    """A thread for each job, unless there are too many; none keeps the process from ending, for it may hang."""

    def __init__(self) -> None:
        self._free = threading.Semaphore(_AT_ONCE)

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()  # from here on it cannot be cancelled
        if self._free.acquire(blocking=False):
            work = partial(self._do, future, partial(function, *args, **kwargs))
            threading.Thread(target=work, name="hotloop request", daemon=True).start()
        else:
            future.set_exception(RuntimeError(f"{_AT_ONCE} are being embedded"))
        return future

    def _do(self, future: Future[T], job: Callable[[], T]) -> None:
        try:
            future.set_result(job())
        except BaseException as error:  # the waiter decides what it means
            future.set_exception(error)
        finally:
            self._free.release()


_ending = threading.Event()
_at_work: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


@atexit.register
def _at_exit() -> None:
    """Let what is embedded be kept, but wait no longer than for a file."""
    _ending.set()
    until = time.monotonic() + _PATIENCE
    for thread in list(_at_work):
        thread.join(max(until - time.monotonic(), 0))
        if thread.is_alive():
            _log.warning(_HANGS, _PATIENCE)
