"""Spans that arrive little by little are gathered until their traces are complete."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

import msgspec

from hotloop.trace.importing.span import Span

_REMEMBERED = 10_000  # traces that were given on, whose later spans come too late


class _Gathered(msgspec.Struct, gc=False):
    spans: list[Span]
    last: float
    rooted: bool = False


class Gathering:
    """Traces on their way; whoever adds spans may be in any thread.

    A trace is due when its root has ended and nothing of it came for `quiet` seconds, or when nothing came for
    `patience` seconds: its root may be with somebody who sends it elsewhere. Of more than `most` spans, those of the
    trace that has been waiting longest are due at once. `late` counts spans whose trace had been given on before.
    """

    def __init__(
        self,
        quiet: float = 5.0,
        patience: float = 60.0,
        most: int = 200_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.late = 0
        self._quiet = quiet
        self._patience = patience
        self._most = most
        self._clock = clock
        self._held = 0
        self._traces: dict[str, _Gathered] = {}  # the one that was added to last is last
        self._pushed_out: list[tuple[str, list[Span]]] = []
        self._given: dict[str, None] = {}
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """How many traces are on their way."""
        return len(self._traces)

    def add(self, spans: Iterable[Span]) -> None:
        """These have arrived."""
        now = self._clock()
        with self._lock:
            for span in spans:
                if span.trace_id in self._given:
                    self.late += 1
                    continue
                trace = self._traces.pop(span.trace_id, None) or _Gathered([], now)
                self._traces[span.trace_id] = trace
                trace.spans.append(span)
                trace.last = now
                trace.rooted = trace.rooted or (not span.parent_id and span.end > 0)
                self._held += 1
            while self._held > self._most:
                self._pushed_out.append(self._give(next(iter(self._traces))))

    def due(self) -> list[tuple[str, list[Span]]]:
        """The traces that are due now, each with its spans; they are given on once."""
        now = self._clock()
        with self._lock:
            due = [
                trace_id
                for trace_id, trace in self._traces.items()
                if now - trace.last >= (self._quiet if trace.rooted else self._patience)
            ]
            return self._with_pushed_out(due)

    def complete(self) -> list[tuple[str, list[Span]]]:
        """The traces whose roots have ended: what there is to keep of them when nothing more will come."""
        with self._lock:
            return self._with_pushed_out([trace_id for trace_id, trace in self._traces.items() if trace.rooted])

    def _with_pushed_out(self, due: list[str]) -> list[tuple[str, list[Span]]]:
        given, self._pushed_out = self._pushed_out + [self._give(trace_id) for trace_id in due], []
        return given

    def _give(self, trace_id: str) -> tuple[str, list[Span]]:
        trace = self._traces.pop(trace_id)
        self._held -= len(trace.spans)
        self._given[trace_id] = None
        if len(self._given) > _REMEMBERED:
            del self._given[next(iter(self._given))]
        return trace_id, trace.spans
