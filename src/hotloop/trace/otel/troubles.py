"""What does not reach a collector, of which a person is told once."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from hotloop.masks import without_secrets

_log = logging.getLogger("hotloop.trace")
_THEIRS = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.proto.http.metric_exporter",
)
_ALL = "spans and metrics"
_GIVEN_UP = "already shutdown"
_KEY = re.compile(r"(url: [^\s?]*\?)\S+")
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
        hear: Callable[[str], None] | None = getattr(_here, "hear", None)
        if hear is not None:
            hear(record.getMessage())
        return hear is None


_quiet = _Quiet()


@contextmanager
def _quietly(hear: Callable[[str], None]) -> Iterator[None]:
    """Have this take what the SDK would log in this thread, instead of its logging that."""
    for name in _THEIRS:
        logging.getLogger(name).addFilter(_quiet)  # which is there once, however often it is added
    _here.hear = hear
    try:
        yield
    finally:
        _here.hear = None


class Troubles:
    """What a person was told does not reach a collector; it is told once, until it works again.

    `lost` counts the spans that found too many waiting before them.
    """

    def __init__(self) -> None:
        self.lost = 0
        self._told: set[str] = set()
        self._unreached = False
        self._give_up: Callable[[], None] | None = None

    def send(self, what: str, endpoint: str, export: Callable[[], T], good: T) -> T:
        """Send something by `export`, which gives `good` if that arrived."""
        heard: list[str] = []

        def hear(message: str) -> None:
            heard.append(message)
            if _UNREACHED.search(message):
                self._miss()

        with _quietly(hear):
            result = export()
        if result == good:
            self._works(what)
        elif not (heard and _GIVEN_UP in heard[0]):  # why that was is told with what was tried last
            self._fails(what, endpoint, heard[0] if heard else "no reason given")
        return result

    def end(self, give_up: Callable[[], None]) -> None:
        """What waits is sent for the last time: give up once the collector cannot be reached, or if it could not."""
        self._give_up = give_up
        if self._unreached:
            give_up()

    def lose(self, waiting: int) -> None:
        """A span is lost, because so many wait already."""
        if not self.lost:
            _log.warning(_FULL, f"{waiting:,}")
        self.lost += 1

    def close(self) -> None:
        """Nothing more will come."""
        if self.lost:
            _log.warning("%s spans were lost, for too many waited.", f"{self.lost:,}")

    def _miss(self) -> None:
        """The collector cannot be reached, which the SDK would try again and again."""
        self._unreached = True
        if self._give_up is not None:
            self._give_up()

    def _works(self, what: str) -> None:
        self._unreached = False
        if self._told & {what, _ALL}:
            self._told -= {what, _ALL}
            _log.info("OpenTelemetry's collector takes %s again.", what)

    def _fails(self, what: str, endpoint: str, reason: str) -> None:
        refused = _REFUSED.search(reason)
        which = what if refused else _ALL  # what cannot be reached takes nothing at all
        if which not in self._told:
            self._told.add(which)
            found = refused or _UNREACHED.search(reason)
            why = without_secrets(_KEY.sub(r"\1***", found[1] if found else reason)).rstrip(".")
            _log.warning(_WARNING, which, without_secrets(endpoint), why)
