"""What does not reach a collector, of which a person is told once."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

_log = logging.getLogger("hotloop.trace")
_THEIRS = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.proto.http.metric_exporter",
)
_ALL = "spans and metrics"
_REFUSED = re.compile(r"batch (code: .*)")
_UNREACHED = re.compile(r"(?:\[Errno -?\d+\]|due to) ([^'\")]+)")
_WARNING = (
    "No %s reach OpenTelemetry's collector at %s (%s). What is not sent is lost; runs are not held up. "
    "This is told once, until it works again."
)
_FULL = (
    "Spans are lost, for OpenTelemetry's collector takes them more slowly than they come, and %s wait already. "
    "This is told once; how many were lost is told at the end."
)
_here = threading.local()
T = TypeVar("T")


class _Quiet(logging.Filter):
    """Keeps back what the SDK logs where we tell of it ourselves."""

    def filter(self, record: logging.LogRecord) -> bool:
        heard: list[str] | None = getattr(_here, "heard", None)
        if heard is not None:
            heard.append(record.getMessage())
        return heard is None


_quiet = _Quiet()


@contextmanager
def _quietly() -> Iterator[list[str]]:
    """What the SDK would log in this thread, instead of its logging that."""
    for name in _THEIRS:
        logging.getLogger(name).addFilter(_quiet)  # which is there once, however often it is added
    heard: list[str] = []
    _here.heard = heard
    try:
        yield heard
    finally:
        _here.heard = None


class Troubles:
    """What a person was told does not reach a collector; it is told once, until it works again.

    `lost` counts the spans that found too many waiting before them.
    """

    def __init__(self) -> None:
        self.lost = 0
        self._told: set[str] = set()

    def send(self, what: str, endpoint: str, export: Callable[[], T], good: T) -> T:
        """Send something by `export`, which gives `good` if that arrived."""
        with _quietly() as heard:
            result = export()
        if result == good:
            self._works(what)
        else:
            self._fails(what, endpoint, heard[0] if heard else "no reason given")
        return result

    def lose(self, waiting: int) -> None:
        """A span is lost, because so many wait already."""
        if not self.lost:
            _log.warning(_FULL, f"{waiting:,}")
        self.lost += 1

    def close(self) -> None:
        """Nothing more will come."""
        if self.lost:
            _log.warning("%s spans were lost, for too many waited.", f"{self.lost:,}")

    def _works(self, what: str) -> None:
        if self._told & {what, _ALL}:
            self._told -= {what, _ALL}
            _log.info("OpenTelemetry's collector takes %s again.", what)

    def _fails(self, what: str, endpoint: str, reason: str) -> None:
        refused = _REFUSED.search(reason)
        which = what if refused else _ALL  # what cannot be reached takes nothing at all
        if which not in self._told:
            self._told.add(which)
            found = refused or _UNREACHED.search(reason)
            _log.warning(_WARNING, which, endpoint, (found[1] if found else reason).rstrip("."))
