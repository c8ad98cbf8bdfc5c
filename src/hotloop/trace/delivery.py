"""Runs that have ended are made records and handed to their exporters, whatever comes of that."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from hotloop.trace.record import Ended, TraceRecord

if TYPE_CHECKING:
    from hotloop.trace.recorder import Exporter

_log = logging.getLogger("hotloop.trace")

_BREATH = 16  # records, about 0.2 ms: so long an event loop may have to wait for the interpreter
_KINDS = 100  # of failures that are told of


@runtime_checkable
class Missing(Protocol):
    """An exporter that wants to know of the runs that it does not get."""

    def missed(self, runs: int) -> None:
        """So many more were dropped, because they ended faster than they could be recorded."""


class Delivery:
    """Hands records to exporters, from one thread; `failed` counts those that one of them did not take."""

    def __init__(self) -> None:
        self.failed = 0
        self._known: dict[int, Exporter] = {}
        self._told: set[str] = set()

    def deliver(self, runs: Iterable[tuple[tuple[Exporter, ...], Ended]]) -> None:
        """Make the records of these runs, and hand to each exporter all that are for it."""
        batches: dict[int, list[TraceRecord]] = {}
        for number, (exporters, ended) in enumerate(runs, 1):
            self._add(exporters, ended, batches)
            if not number % _BREATH:
                time.sleep(0)
        for key, records in batches.items():
            with self._counting(self._known[key], len(records)):
                self._known[key].export(records)

    def tell_missed(self, exporters: Iterable[Exporter], runs: int) -> None:
        """Tell those of these exporters that want to know how many runs they missed."""
        for exporter in exporters:
            if isinstance(exporter, Missing):
                with self._counting(exporter):
                    exporter.missed(runs)

    def close(self) -> None:
        """Nothing more will come."""
        for exporter in self._known.values():
            with self._counting(exporter):
                exporter.close()

    def _add(self, exporters: Iterable[Exporter], ended: Ended, batches: dict[int, list[TraceRecord]]) -> None:
        """Add the run to the batch of each exporter, with its words for those that take them."""
        from hotloop.trace.making import record_of

        made: dict[bool, TraceRecord] = {}
        for exporter in exporters:
            self._known.setdefault(id(exporter), exporter)
            content = bool(getattr(exporter, "content", ended.content))
            if content not in made:
                with self._counting(exporter, 1):  # values in it may be of anybody's types
                    made[content] = record_of(ended, content)
            if content in made:
                batches.setdefault(id(exporter), []).append(made[content])

    @contextmanager
    def _counting(self, exporter: object, records: int = 0) -> Iterator[None]:
        """If it fails, so many records are lost, which is counted, and told once for each reason."""
        try:
            yield
        except Exception as error:
            self.failed += records
            told = f"{type(exporter).__name__}: {error or type(error).__name__}"
            if told not in self._told and len(self._told) < _KINDS:
                self._told.add(told)
                _log.warning("Runs are not recorded by %s", told)
