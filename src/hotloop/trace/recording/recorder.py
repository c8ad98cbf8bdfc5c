"""Runs that have ended are recorded in a thread of their own, off the path of every request."""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401  once the interpreter ends, it can no longer be imported
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Protocol

import msgspec

from hotloop.trace.ledger import Words
from hotloop.trace.record import Ended, TraceRecord
from hotloop.trace.recording.delivery import Delivery

_log = logging.getLogger("hotloop.trace")

_MOST = 10_000  # runs that wait to be recorded
_MOST_CHARACTERS = 64 << 20  # of what was said in them
_BATCH = 256  # runs that are exported at once
_GATHERING = 0.5  # seconds in which a batch comes together: a transaction costs as much as several records
_AT_EXIT = 2.0  # seconds
_RECORDING = 0.75  # of these: in the rest exporters can close what they have
_TOLD_AGAIN = 60.0  # seconds between two lines in the log about runs that were dropped


class Exporter(Protocol):
    """Where records go. It is kept until the process ends, so that agents that are made anew had better share one.

    If it has a `content`, that says whether its records have in them what was said; else `Traces(content=...)` does.
    """

    def export(self, records: Sequence[TraceRecord]) -> None:
        """Take these. Called in the recording thread; what it raises is logged, and costs these records only."""

    def close(self) -> None:
        """Nothing more will come: the process ends."""


class _Run(msgspec.Struct, frozen=True, gc=False):
    """A run that waits; of so many characters is what was said in it."""

    exporters: tuple[Exporter, ...]
    ended: Ended
    size: int


class Recorder:
    """A bounded queue of runs that have ended, and the thread that empties it, begun with the first of them.

    `dropped` counts the runs that found it full.
    """

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Begin; once more in a forked child, for what waits is its parent's, and threads do not come along."""
        self.dropped = 0
        self.delivery = Delivery()
        self._lock = threading.Lock()
        self._waiting: deque[_Run | threading.Event] = deque()
        self._size = 0
        self._missed: dict[int, tuple[tuple[Exporter, ...], int]] = {}
        self._untold = 0
        self._tell_at = 0.0
        self._come = threading.Event()
        self._hurry = threading.Event()
        self._thread: threading.Thread | None = None

    def submit(self, exporters: tuple[Exporter, ...], ended: Ended) -> None:
        """Have this run recorded soon, or count it if too many wait already. For any thread; it raises nothing."""
        size = _size(ended.words)
        with self._lock:
            if self._waiting and (len(self._waiting) >= _MOST or self._size + size > _MOST_CHARACTERS):
                self._drop(exporters)
            else:
                self._waiting.append(_Run(exporters, ended, size))
                self._size += size
                if len(self._waiting) == _BATCH:
                    self._hurry.set()
        if not self._come.is_set():
            self._wake()

    def skip(self, exporters: tuple[Exporter, ...]) -> None:
        """Count a run that is not recorded, because too many are."""
        with self._lock:
            self._drop(exporters)
        if not self._come.is_set():
            self._wake()

    def flush(self, seconds: float) -> bool:
        """Wait until all that was submitted is recorded; False if it is not within this time."""
        if self._thread is None:
            return True
        done = threading.Event()
        with self._lock:
            self._waiting.append(done)
        self._hurry.set()
        self._come.set()
        return done.wait(seconds)

    def close(self) -> None:
        """The process ends: record what waits, and close the exporters, both within two seconds."""
        until = time.monotonic() + _AT_EXIT
        if self.flush(_AT_EXIT * _RECORDING):
            self._tell_at = 0.0
            self._tell_missed()
        else:
            _log.warning("The last runs were not recorded within %g s, and are lost.", _AT_EXIT * _RECORDING)
        if not self.delivery.close(until - time.monotonic()):
            _log.warning("Not all that was recorded could be sent or kept within %g s; the rest is lost.", _AT_EXIT)

    def _wake(self) -> None:
        """Have the thread look, which is begun if there is none."""
        self._come.set()
        with self._lock:
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._work, name="hotloop recorder", daemon=True)
            try:
                self._thread.start()
            except RuntimeError as error:  # there are too many, or the interpreter is about to end
                self._thread = None
                _log.warning("Runs are not recorded: %s.", error)

    def _drop(self, exporters: tuple[Exporter, ...]) -> None:
        self.dropped += 1
        _, missed = self._missed.get(id(exporters), (exporters, 0))
        self._missed[id(exporters)] = exporters, missed + 1

    def _work(self) -> None:
        while True:
            self._come.wait()
            self._hurry.wait(_GATHERING)
            self._hurry.clear()
            self._come.clear()
            while self._export(self._next()) == _BATCH:  # what has come meanwhile may gather
                pass

    def _export(self, batch: Sequence[_Run | threading.Event]) -> int:
        """Have a batch recorded, and wake who waits for that; how large it was."""
        self.delivery.deliver((each.exporters, each.ended) for each in batch if isinstance(each, _Run))
        self._tell_missed()
        for each in batch:
            if isinstance(each, threading.Event):
                each.set()
        return len(batch)

    def _next(self) -> list[_Run | threading.Event]:
        with self._lock:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _BATCH))]
            self._size -= sum(each.size for each in batch if isinstance(each, _Run))
        return batch

    def _tell_missed(self) -> None:
        """Tell exporters of what was dropped, and the log, too, but that not often."""
        with self._lock:
            missed, self._missed = self._missed, {}
        for exporters, runs in missed.values():
            self.delivery.tell_missed(exporters, runs)
            self._untold += runs
        now = time.monotonic()
        if self._untold and now >= self._tell_at:
            _log.warning("%s runs were not recorded: more ended than are recorded at once.", f"{self._untold:,}")
            self._untold, self._tell_at = 0, now + _TOLD_AGAIN


def _size(words: Words) -> int:
    return len(words.prompt) + len(words.answer) + sum([len(call.result) for call in words.calls])


recorder = Recorder()
"""The one of this process."""

atexit.register(recorder.close)


def _before_fork() -> None:
    recorder._lock.acquire()


def _after_fork() -> None:
    recorder._lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=recorder.start)
