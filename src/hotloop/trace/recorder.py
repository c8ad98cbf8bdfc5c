"""Records go out in a thread of their own, off the path of every request: to the store and to other exporters."""

from __future__ import annotations

import atexit
import logging
import threading
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from hotloop.trace.record import Ended, TraceRecord

_log = logging.getLogger("hotloop.trace")

_MOST = 10_000  # runs that wait to be recorded
_AT_EXIT = 2.0  # seconds


class Exporter(Protocol):
    """Where records go."""

    def export(self, records: Sequence[TraceRecord]) -> None:
        """Take these. Called in the recording thread; what it raises is logged and costs these records only."""

    def close(self) -> None:
        """Nothing more will come."""


class Recorder:
    """A bounded queue and the thread that empties it; `dropped` counts the runs that found it full."""

    def __init__(self) -> None:
        self.dropped = 0
        self._waiting: deque[tuple[tuple[Exporter, ...], Ended]] = deque()
        self._work = threading.Condition()
        self._busy = False
        self._thread: threading.Thread | None = None

    def submit(self, exporters: tuple[Exporter, ...], ended: Ended) -> None:
        """Have this run recorded soon."""
        if len(self._waiting) >= _MOST:
            self.dropped += 1
            return
        self._waiting.append((exporters, ended))
        with self._work:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="hotloop recorder", daemon=True)
                self._thread.start()
                atexit.register(self.flush, _AT_EXIT)
            self._work.notify_all()

    def flush(self, seconds: float) -> bool:
        """Wait until all is recorded; False if it is not within this time."""
        with self._work:
            return self._work.wait_for(lambda: not (self._waiting or self._busy), seconds)

    def _run(self) -> None:
        while True:
            with self._work:
                self._work.wait_for(lambda: self._waiting)
                self._busy = True
            while self._waiting:
                exporters, ended = self._waiting.popleft()
                for exporter in exporters:
                    try:
                        exporter.export([ended.record()])
                    except Exception as error:
                        _log.warning("A trace could not be recorded: %s", error)
            with self._work:
                self._busy = False
                self._work.notify_all()


recorder = Recorder()
"""The one of this process."""
