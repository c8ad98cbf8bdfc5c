"""Takes a reply's tokens to its client as an engine makes them, and counts how well their moments were kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from hotloop.lab.engines.work import Work
from hotloop.lab.script import Headers
from hotloop.lab.service.outgoing import Outgoing
from hotloop.units import NS_PER_MS, clock

_BIN = 10_000  # nanoseconds


class Sink(Protocol):
    """Where a reply goes."""

    def head(self, status: int, headers: Headers) -> None:
        """The status and the headers."""

    def send(self, pieces: Sequence[bytes], over: bool) -> None:
        """More of the body, and whether that was all of it."""

    def cut(self) -> None:
        """The connection breaks."""


class Stats(msgspec.Struct):
    """What a service did so far: `open` replies are under way, `abandoned` ones lost their client.

    `tokens` counts those that were sent: each of a stream, and a whole body as one. `late_tokens` of them were overdue
    when the next one was due, and went out with it. The milliseconds are how much later than it was due a write
    happened: percentiles, to 0.01 ms, and the worst.
    """

    requests: int = 0
    open: int = 0
    abandoned: int = 0
    tokens: int = 0
    late_tokens: int = 0
    late_p50_ms: float = 0.0
    late_p95_ms: float = 0.0
    late_p99_ms: float = 0.0
    late_ms: float = 0.0


class Meter:
    """Counts what a service does."""

    def __init__(self) -> None:
        self._stats = Stats()
        self._late: dict[int, int] = {}  # writes, by how many bins late they were

    def stats(self) -> Stats:
        """What was counted so far."""
        return msgspec.structs.replace(
            self._stats,
            late_p50_ms=self._percentile(50),
            late_p95_ms=self._percentile(95),
            late_p99_ms=self._percentile(99),
        )

    def asked(self) -> None:
        """A request came."""
        self._stats.requests += 1

    def opened(self) -> None:
        """It will be answered."""
        self._stats.open += 1

    def closed(self, abandoned: bool = False) -> None:
        """It was answered, or its client has gone."""
        self._stats.open -= 1
        self._stats.abandoned += abandoned

    def made(self, tokens: int, late: int) -> None:
        """So many tokens were sent, some of them only with a later one."""
        self._stats.tokens += tokens
        self._stats.late_tokens += late

    def wrote(self, late: int) -> None:
        """There was a write, `late` nanoseconds after it was due."""
        place = late // _BIN
        self._late[place] = self._late.get(place, 0) + 1
        if late > self._stats.late_ms * NS_PER_MS:
            self._stats.late_ms = late / NS_PER_MS

    def _percentile(self, percent: int) -> float:
        """The upper end of the bin that has the nearest rank, but no more than the worst."""
        left = -(-sum(self._late.values()) * percent // 100)
        for place, writes in sorted(self._late.items()):
            left -= writes
            if left <= 0:
                return min((place + 1) * _BIN / NS_PER_MS, self._stats.late_ms)
        return 0.0


class Emitter:
    """Delivers one reply to `sink`: `outgoing`, or `refusal` if the engine refuses the work."""

    __slots__ = ("_begun", "_clock", "_meter", "_open", "_outgoing", "_refusal", "_sent", "_sink")

    def __init__(self, outgoing: Outgoing, refusal: Outgoing, sink: Sink, meter: Meter) -> None:
        self._outgoing = outgoing
        self._refusal = outgoing if outgoing.refused else refusal
        self._sink = sink
        self._meter = meter
        self._clock = clock()
        self._sent = 0
        self._begun = False
        self._open = True
        meter.opened()

    def __call__(self, work: Work) -> None:
        """There are more tokens of its work, or that was refused."""
        if work.refused:
            self._write(work, self._refusal, self._refusal.pieces, over=True)
            return
        first, made, outgoing = self._sent, work.made, self._outgoing
        over = made == work.tokens
        if made == first or not (over or work.streamed):
            return
        self._sent = made
        pieces = outgoing.pieces[first:made]
        if over and outgoing.tail is not None:
            pieces = [*pieces, outgoing.tail(work)]
        fresh, late = (made - first if work.streamed else 1), self._clock() - work.due
        self._meter.made(fresh, fresh - 1 if work.due != work.last else 0)
        work.due = 0
        if self._write(work, outgoing, pieces, over):
            self._meter.wrote(late)

    def abandon(self) -> None:
        """Nobody waits for the rest; nothing happens if there is none."""
        if self._open:
            self._open = False
            self._meter.closed(abandoned=True)

    def _write(self, work: Work, outgoing: Outgoing, pieces: Sequence[bytes], over: bool) -> bool:
        """Write what there is; False if it is nothing, because all of it is held back."""
        if not outgoing.apart and len(pieces) > 1:
            pieces = (b"".join(pieces),)
        if over:  # what the last bytes set off may well look at the counts
            self._end(outgoing)
        if not (over or outgoing.apart or any(pieces)):
            return False
        if not self._begun:
            self._begun = True
            more = outgoing.more(work) if outgoing.more is not None else ()
            self._sink.head(outgoing.status, (*outgoing.headers, *more))
        self._sink.send(pieces, over and outgoing.ending == "end")
        if over and outgoing.ending == "cut":
            self._sink.cut()
        if not self._open:
            del self._sink  # which knows whom to tell that its client has left: no cycle, no garbage to collect
        return True

    def _end(self, outgoing: Outgoing) -> None:
        if outgoing.ending != "stall":
            self._open = False
            self._meter.closed()
