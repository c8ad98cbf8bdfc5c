"""Which recorded runs a command is about, as options."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
from cyclopts import Parameter, Token

from hotloop.commands.options import Count, Duration, Flag, Name
from hotloop.database import state_path
from hotloop.errors import ConfigError
from hotloop.fields import require
from hotloop.trace.record import TraceRecord
from hotloop.trace.store import TraceStore, Which
from hotloop.units import parse_duration
from hotloop.words import listed

_LONG = re.compile(r"([0-9]*\.?[0-9]+)\s*(d|w)")
_DAYS = {"d": 1, "w": 7}
_SECONDS_PER_DAY = 86_400
_NAMED = ("agent", "version", "source")  # of which there are few, so that a message can list them
_NO_MOMENT = "{!r} is no time; write how long ago (2h, 3d) or when (2026-11-30, '2026-11-30 14:05')"


def moment_of(text: str, now: float) -> float:
    """Unix seconds of "2h" (that long before `now`; days and weeks too), or of a date, with a time of day or without.

    A date without a time zone is meant as it is here. Raises ValueError for anything else.
    """
    text = text.strip()
    if found := _LONG.fullmatch(text):
        return now - float(found[1]) * _DAYS[found[2]] * _SECONDS_PER_DAY
    try:
        return now - parse_duration(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(_NO_MOMENT.format(text)) from None


def _moment(_: Any, tokens: Sequence[Token]) -> float:
    return moment_of(tokens[0].value, time.time())


Moment: TypeAlias = Annotated[float, Parameter(converter=_moment, metavar="TIME")]
"""Unix seconds, written as how long ago it was (2h), or as a date."""


StoreFile: TypeAlias = Annotated[Path | None, Parameter(name="--store", metavar="FILE")]
"""The file that runs are recorded in."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Selection:
    """Options that say which recorded runs are meant.

    Parameters
    ----------
    path
        The file to look into. [default: the one in your state folder]
    agent
        Only runs of the agent with this name.
    version
        Only runs of this version of it.
    session
        Only runs of this conversation.
    source
        Only runs of this framework: hotloop, or the one that an imported trace is of.
    since
        Only runs that began then or later: 2h ago, or a date.
    until
        Only runs that began before then.
    slow
        Only runs that took so long or longer.
    failed
        Only runs that failed.
    last
        Only the last so many of them.
    """

    path: StoreFile = None
    agent: Name | None = None
    version: Name | None = None
    session: Name | None = None
    source: Name | None = None
    since: Moment | None = None
    until: Moment | None = None
    slow: Annotated[Duration | None, Parameter(show_default=False)] = None
    failed: Flag = False
    last: Count | None = None

    def which(self) -> Which:
        """The runs that are meant."""
        return Which(
            agent=self.agent,
            version=self.version,
            session=self.session,
            source=self.source,
            since=self.since,
            until=self.until,
            slow=self.slow,
            failed=self.failed,
            limit=self.last,
        )

    def store(self) -> TraceStore:
        """Where they are kept. Raises ConfigError for a file that is not there."""
        path = self.path or state_path("traces.db")
        require(path.exists(), f"There is no file {path}: no run has been recorded there.")
        return TraceStore(path)

    def records(self, run: str | None = None) -> Iterator[TraceRecord]:
        """These runs, the oldest first; of a `run`, its id or how that begins, that one.

        Raises ConfigError, with what there is instead, if there is none of them.
        """
        store, which = self.store(), self.which()
        if run is not None:
            which = msgspec.structs.replace(which, trace_id=store.resolve(run))
        if not store.infos(msgspec.structs.replace(which, limit=1)):
            raise ConfigError(self.told_missing(store))
        return store.find(which)

    def told_missing(self, store: TraceStore) -> str:
        """That none of these runs is there, in a sentence: which names there are, if one is unknown."""
        for what in _NAMED:
            name = getattr(self, what)
            if name is None or store.infos(Which(**{what: name}, limit=1)):
                continue
            if known := sorted({getattr(info, what) for info in store.infos()} - {""}):
                return f"There is no run of {what} {name!r} in {store.path}; there are {listed(name, known)}."
        return f"No run in {store.path} is selected: run the agent first, or choose other runs."
