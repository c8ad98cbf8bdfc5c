"""Runs that have ended are made records and handed to their exporters, whatever comes of that."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from hotloop.errors import HotloopError
from hotloop.trace.record import Ended, TraceRecord
from hotloop.trace.recording.ending import ends_within

if TYPE_CHECKING:
    from hotloop.trace.recording.recorder import Exporter

_log = logging.getLogger("hotloop.trace")

_AT_A_STRETCH = 16  # records, about 0.5 ms: so long an event loop may have to wait for the interpreter
_BREATH = 0.0001  # seconds: who only lets go of the interpreter has it back before others are awake
_KINDS = 100  # of failures that are told of


@runtime_checkable
class Preparing(Protocol):
    """An exporter that makes something of each record at once, while it is at hand."""

    def prepare(self, record: TraceRecord) -> Any:
        """What its `export` is to be given in place of this record."""


@runtime_checkable
class Missing(Protocol):
    """An exporter that wants to know of the runs that it does not get."""

    def missed(self, runs: int) -> None:
        """So many more were dropped, because they ended faster than they could be recorded."""


class Delivery:
    """Hands records to exporters, from one thread; `failed` counts those that one of them did not take."""

    def __init__(self) -> None:
        self.failed = 0
        self._ways: dict[int, _Way] = {}
        self._told: set[str] = set()

    def deliver(self, runs: Iterable[tuple[tuple[Exporter, ...], Ended]]) -> None:
        """Make the records of these runs, and hand to each exporter all that are for it."""
        from hotloop.trace.recording.making import record_of

        for number, (exporters, ended) in enumerate(runs, 1):
            self._make(exporters, ended, record_of)
            if not number % _AT_A_STRETCH:
                time.sleep(_BREATH)
        for way in self._ways.values():
            batch, way.batch = way.batch, []
            if batch:
                with self._counting(way.exporter, len(batch)):
                    way.exporter.export(batch)

    def tell_missed(self, exporters: Iterable[Exporter], runs: int) -> None:
        """Tell those of these exporters that want to know how many runs they missed."""
        for exporter in exporters:
            if isinstance(exporter, Missing):
                with self._counting(exporter):
                    exporter.missed(runs)

    def close(self, seconds: float) -> bool:
        """Nothing more will come: close all exporters at once; False if one of them is not done within this time."""
        return ends_within(seconds, [partial(self._close, way.exporter) for way in list(self._ways.values())])

    def _close(self, exporter: Exporter) -> None:
        with self._counting(exporter):
            exporter.close()

    def _make(
        self, exporters: Iterable[Exporter], ended: Ended, record_of: Callable[[Ended, bool], TraceRecord]
    ) -> None:
        """Add the run's record to the batch of each exporter, with its words for those that take them."""
        made: dict[bool, TraceRecord] = {}
        for exporter in exporters:
            way = self._ways.get(id(exporter)) or self._ways.setdefault(id(exporter), _Way(exporter))
            content = ended.content if way.content is None else way.content
            try:
                if content not in made:
                    made[content] = record_of(ended, content)
                way.batch.append(way.prepare(made[content]))
            except Exception as error:  # values in it may be of anybody's types
                self._failed(exporter, error, 1)

    @contextmanager
    def _counting(self, exporter: object, records: int = 0) -> Iterator[None]:
        """If it fails, so many records are lost."""
        try:
            yield
        except Exception as error:
            self._failed(exporter, error, records)

    def _failed(self, exporter: object, error: Exception, records: int) -> None:
        """Count it, and tell of it once."""
        self.failed += records
        told = str(error) if isinstance(error, HotloopError) else f"{type(exporter).__name__} raised {error!r}."
        if told not in self._told and len(self._told) < _KINDS:
            self._told.add(told)
            _log.warning("Runs are not recorded: %s", told)


class _Way:
    """To an exporter: what is about to be handed to it, and how it wants it; `content` None is as the agent has it."""

    def __init__(self, exporter: Exporter) -> None:
        self.exporter = exporter
        self.content: bool | None = getattr(exporter, "content", None)
        self.prepare: Callable[[TraceRecord], Any] = exporter.prepare if isinstance(exporter, Preparing) else _as_it_is
        self.batch: list[Any] = []


def _as_it_is(record: TraceRecord) -> TraceRecord:
    return record
