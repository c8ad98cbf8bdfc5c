"""How the runs of an agent are recorded, as it was declared."""

from __future__ import annotations

import asyncio
import os
import time
from asyncio import CancelledError
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hotloop.errors import ApprovalRequired
from hotloop.fields import Count, Text, check_fields, require
from hotloop.trace.declared import NOTHING_DECLARED, Declared
from hotloop.trace.ledger import Ledger, Words
from hotloop.trace.record import Ended, Outcome
from hotloop.trace.w3c import Position, Positions
from hotloop.units import is_virtual

if TYPE_CHECKING:
    from hotloop.trace.record import TraceRecord
    from hotloop.trace.recording.recorder import Exporter
    from hotloop.trace.store import Row, TraceStore

_SWITCH = "HOTLOOP_TRACES"


class Traces(msgspec.Struct, frozen=True, kw_only=True):
    """Where runs are recorded: in the SQLite file at `path` (None: the usual one in the user's state folder).

    With `content` what was said is kept, too, secrets masked. Of each agent the last `runs` are kept, for `days`.
    Raises ConfigError for values that cannot be.
    """

    path: Text | None = None
    content: bool = False
    days: Count = 14
    runs: Count = 100_000

    def __post_init__(self) -> None:
        check_fields(Traces, msgspec.structs.asdict(self), "Traces")


Ending = tuple[Outcome, str]
"""What a run came to, and the class of what it raised, "" for nothing."""

_TO_RECORD = 1.0  # seconds

WELL: Ending = ("ok", "")


class Recording:
    """Records runs with `traces` (None: not in a store) and by `exporters`; `version` is the agent's.

    What was `declared` of it goes with each record. In a store that is only the `usual` one, which nobody asked for,
    runs in virtual time are not recorded: their times would mislead whoever reads those of real ones. And without other
    exporters no more than 200 runs a second are: a process that is busy has its CPU for itself.
    """

    def __init__(
        self,
        traces: Traces | None,
        exporters: Sequence[Exporter],
        version: str,
        declared: Declared = NOTHING_DECLARED,
        *,
        usual: bool = False,
    ) -> None:
        self._exporters = (*([] if traces is None else [_shared(traces)]), *exporters)
        self._in_virtual_time = tuple(exporters) if usual else self._exporters
        self._pace = _usual_pace if usual and not exporters else None
        self._version = version
        self._declared = declared
        self._content = traces is not None and traces.content
        self.on = bool(self._exporters)
        if self.on:
            from hotloop.trace.recording.recorder import recorder

            self._recorder = recorder
        self._positions = next((each for each in exporters if isinstance(each, Positions)), None)

    def position(self, run_id: str, parent: Position | None) -> Position | None:
        """Where this run of somebody at `parent` stands in a trace; None if nobody wants to know."""
        return parent if self._positions is None else self._positions.position(run_id, parent)

    def begin(self, ledger: Ledger, prompt: str) -> None:
        """A run begins, if recording is `on`."""
        if self._pace is None or self._pace.admits():
            ledger.words = Words(prompt)
        else:
            self._recorder.skip(self._exporters)

    def end(self, ledger: Ledger, limits: Mapping[str, int], session: str, ending: Ending) -> None:
        """A run whose words are known has ended in this way, and its ledger is closed."""
        assert ledger.words is not None
        how = (*ending, self._content, self._declared)
        ended = Ended(ledger, limits, ledger.words, self._version, session, *how)
        ledger.words = None
        if exporters := self._in_virtual_time if is_virtual(ledger.clock) else self._exporters:
            self._recorder.submit(exporters, ended)

    async def flush(self) -> None:
        """Wait, a second at most, until the runs that have ended are recorded."""
        if self.on:
            await asyncio.to_thread(self._recorder.flush, _TO_RECORD)


class _Pace:
    """So many a second, with no more at once than in a second."""

    def __init__(self, rate: float) -> None:
        self._rate = self._left = rate
        self._at = time.monotonic()

    def admits(self) -> bool:
        """Whether there may be one more now."""
        now = time.monotonic()
        left = min(self._left + (now - self._at) * self._rate, self._rate)
        self._at, self._left = now, left - 1 if left >= 1 else left
        return left >= 1


_usual_pace = _Pace(200)


class _Stored:
    """An `Exporter` to the store of `traces`, below this state folder, which is opened in the recording thread."""

    def __init__(self, traces: Traces, folder: str | None) -> None:
        self.content = traces.content
        self._traces = traces

    @cached_property
    def _store(self) -> TraceStore:
        from hotloop.trace.retention import Retention
        from hotloop.trace.store import TraceStore

        return TraceStore(self._traces.path, retention=Retention(self._traces.days, self._traces.runs))

    @cached_property
    def prepare(self) -> Callable[[TraceRecord], Row]:
        from hotloop.trace.store import row_of

        return row_of

    def export(self, rows: Sequence[Any]) -> None:
        self._store.write(rows)

    def missed(self, runs: int) -> None:
        self._store.missed(runs)

    def close(self) -> None:
        self._store.close()


_stored = lru_cache(maxsize=256)(_Stored)


def _shared(traces: Traces) -> _Stored:
    """The one for all agents that record in the same way to the same file, for each exporter has its own batches."""
    return _stored(traces, os.environ.get("XDG_STATE_HOME"))


def ending_of(error: BaseException) -> Ending:
    """How a run ended that raised this."""
    if isinstance(error, ApprovalRequired):
        return "paused", ""
    if isinstance(error, CancelledError):
        return "cancelled", ""
    return "failed", type(error).__name__


def read_traces(given: Any) -> Traces | None:
    """What an agent was given as `traces`: None is the usual file unless HOTLOOP_TRACES=off, False is nowhere.

    Raises ConfigError for what is none of these.
    """
    if given is None:
        given = os.environ.get(_SWITCH, "").lower() not in ("off", "0", "false")
    if isinstance(given, bool):
        return Traces() if given else None
    if isinstance(given, str | Path) and str(given):
        return Traces(path=str(given))
    require(isinstance(given, Traces), f"traces is {given!r}; give a file, Traces(...), True or False.")
    return given  # type: ignore[no-any-return]
