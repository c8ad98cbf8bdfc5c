"""A finished run, to be read: its stages, its critical path, its turns, and the budget held against them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from hotloop.trace.ledger import AttemptFacts, Ledger, Stage, TurnFacts, Usage
from hotloop.trace.path import Step, steps_back, took_by
from hotloop.trace.record import TraceRecord
from hotloop.trace.rows import ALL_ROWS, by_row
from hotloop.trace.tokens import added
from hotloop.units import NS_PER_MS, ms

_log = logging.getLogger("hotloop.trace")


class BudgetRow(NamedTuple):
    """One line of the budget: times in milliseconds, `share` of its "total", `verdict` "ok", "over" or "-"."""

    stage: str
    acceptable_ms: float | None
    actual_ms: float
    verdict: str
    share: float


class ToolTimes(msgspec.Struct, frozen=True):
    """What the executor made of a run's tools; times in milliseconds.

    `work_ms` is what all tools took together, `overlapped_ms` what of it ran beside something else, `head_start_ms`
    what began before its reply was complete, `waited_ms` how long calls waited for others or for a place, `saved_ms`
    what was not worked for because the result was in the cache (`hits`, `misses`) or just being had (`joins`). `burst`
    tells that all calls came together with the end of their reply, so that none could begin early; `discarded` calls
    began for a reply that came to nothing.
    """

    work_ms: float = 0.0
    overlapped_ms: float = 0.0
    head_start_ms: float = 0.0
    waited_ms: float = 0.0
    saved_ms: float = 0.0
    hits: int = 0
    misses: int = 0
    joins: int = 0
    discarded: int = 0
    burst: bool = False


class Trace:
    """What one run was, from its ledger or from a record of it; printing it shows timeline and budget.

    `limits` are the budget's rows in nanoseconds; a record has its own.
    """

    def __init__(self, ledger: Ledger | TraceRecord, limits: Mapping[str, int] | None = None) -> None:
        self._ledger = ledger
        self._limits = dict(ledger.limits if isinstance(ledger, TraceRecord) else limits or {})
        self._steps: list[Step] | None = None

    @property
    def trace_id(self) -> str:
        """The run's id."""
        return self._ledger.trace_id

    @property
    def source(self) -> str:
        """Who ran it: "hotloop", or another framework whose trace was imported."""
        return self._ledger.source if isinstance(self._ledger, TraceRecord) else "hotloop"

    @property
    def name(self) -> str:
        """The agent's name, "" if it has none."""
        return self._ledger.name

    @property
    def started(self) -> datetime:
        """When the run began, in local time."""
        return datetime.fromtimestamp(self._ledger.started)

    @property
    def end_to_end_ms(self) -> float:
        """The wall time of the run."""
        return ms(self._ledger.end - self._ledger.start)

    @property
    def unattributed_ms(self) -> float:
        """What of the wall time no stage on the critical path owns."""
        return ms(self._ledger.end - self._ledger.start - sum(self._spent().values()))

    @property
    def turns(self) -> list[TurnFacts]:
        """The model's replies."""
        return self._ledger.turns

    @property
    def attempts(self) -> list[AttemptFacts]:
        """Every request to a service, in the order in which they ended."""
        return self._ledger.attempts

    @property
    def usage(self) -> Usage:
        """The tokens of all requests, as far as their services counted them; None: not known.

        Of a run that was resumed, the turns before its pause count, too, whose requests are in another trace.
        """
        asked = {each.turn for each in self.attempts}
        before = [facts.usage for facts in self.turns if facts.turn not in asked]
        return added([*before, *(each.usage for each in self.attempts)])

    @property
    def stages(self) -> list[Stage]:
        """All stages as they were recorded, in nanoseconds of the run's clock."""
        return self._ledger.stages

    @property
    def start(self) -> int:
        """The run's start in nanoseconds of its clock."""
        return self._ledger.start

    @property
    def end(self) -> int:
        """The run's end in nanoseconds of its clock."""
        return self._ledger.end

    @property
    def facts(self) -> dict[str, Any]:
        """What else is known of the run, such as `max_parallel`."""
        return self._ledger.facts

    def critical_path(self) -> list[Stage]:
        """The stages, cut to size, that the run could not have ended without.

        It is the way back from the end of the run: each moment belongs to the stage that ended there, and if none did,
        to one that goes across it. A wait has what is left when the work it waited for has its own.
        """
        return [msgspec.structs.replace(step.stage, start=step.start, end=step.end) for step in self._path()]

    def _path(self) -> list[Step]:
        if self._steps is None:
            self._steps = steps_back(self._ledger.stages, self._ledger.end)[::-1]
        return self._steps

    def critical_ms(self) -> dict[str, float]:
        """Milliseconds on the critical path by stage kind."""
        return {kind: ms(spent) for kind, spent in self._spent().items()}

    def _spent(self) -> dict[str, int]:
        return took_by(attrgetter("kind"), self._path())

    def budget(self) -> list[BudgetRow]:
        """What each part of the run took on the critical path, against what was acceptable; "total" is last.

        A budget does not count how long a run waited for its session.
        """
        since = max(self._ledger.since, self._ledger.start)
        actual = by_row(self._path(), since)
        actual["total"] = total = self._ledger.end - since
        return [self._row(row, actual[row], total) for row in ALL_ROWS]

    def tools(self) -> ToolTimes:
        """What was overlapped, begun early, waited for and saved."""
        calls = [call for facts in self.turns for call in facts.calls]
        outcomes = [call.outcome for call in calls]
        acted = [facts for facts in self.turns if facts.calls]
        work = sum(stage.end - stage.start for stage in self.stages if stage.kind == "tool")
        return ToolTimes(
            work_ms=ms(work),
            overlapped_ms=ms(work - self._spent().get("tool", 0)),
            head_start_ms=ms(sum(call.head_start for call in calls)),
            waited_ms=ms(sum(call.waited for call in calls)),
            saved_ms=ms(sum(call.saved for call in calls)),
            hits=outcomes.count("cached"),
            misses=sum(call.missed for call in calls),
            joins=outcomes.count("joined"),
            discarded=sum(facts.discarded for facts in self.turns),
            burst=bool(acted) and all(facts.burst for facts in acted),
        )

    def _row(self, row: str, actual: int, total: int) -> BudgetRow:
        limit = self._limits.get(row)
        acceptable = None if limit is None else limit / NS_PER_MS
        verdict = "-" if limit is None else "ok" if actual <= limit else "over"
        return BudgetRow(row, acceptable, ms(actual), verdict, actual / total if total else 0.0)

    def log_lines(self) -> list[str]:
        """The run as log lines: a line per reply, per round of tools, and for the whole; each with its start time."""
        from hotloop.trace.log import log_lines

        return log_lines(self)

    def log(self) -> None:
        """Write the log lines to the logger "hotloop.trace", if anybody listens at level INFO."""
        if _log.isEnabledFor(logging.INFO):
            for line in self.log_lines():
                _log.info(line)

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON: times in milliseconds from the start of the run."""
        critical = {id(step.stage) for step in self._path()}
        return {
            "trace_id": self.trace_id,
            "agent": self.name,
            "started": self.started.astimezone().isoformat(timespec="milliseconds"),
            "end_to_end_ms": self.end_to_end_ms,
            "unattributed_ms": self.unattributed_ms,
            "turns": [_turn_dict(facts) for facts in self.turns],
            "tools": msgspec.structs.asdict(self.tools()),
            "attempts": [self._attempt_dict(facts) for facts in self.attempts],
            "stages": [self._stage_dict(stage, critical) for stage in self.stages],
            "critical_ms": self.critical_ms(),
            "budget": [row._asdict() for row in self.budget()],
            **msgspec.to_builtins(self._ledger.facts),
        }

    def _stage_dict(self, stage: Stage, critical: set[int]) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "kind": stage.kind,
            "turn": stage.turn,
            "lane": stage.lane,
            "start_ms": ms(stage.start - self.start),
            "ms": ms(stage.end - stage.start),
            "critical": id(stage) in critical,
        }
        return shown | {key: value for key, value in (("name", stage.name), ("note", stage.note)) if value}

    def _attempt_dict(self, facts: AttemptFacts) -> dict[str, Any]:
        shown = msgspec.to_builtins(facts)
        shown["usage"] = {key: count for key, count in shown["usage"].items() if count is not None}
        shown |= {"start_ms": ms(shown.pop("start") - self.start), "ms": ms(facts.end - facts.start)}
        shown["first_ms"] = ms(facts.first - self.start) if facts.first else None
        for key in ("end", "first"):
            del shown[key]
        return {key: value for key, value in shown.items() if value not in ("", {})}

    def __str__(self) -> str:
        from hotloop.trace.text import budget_table, notes, timeline

        return "\n\n".join(["\n".join([timeline(self), *notes(self)]), budget_table(self)])


def _turn_dict(facts: TurnFacts) -> dict[str, Any]:
    shown = msgspec.to_builtins(facts)
    shown |= shown.pop("usage")
    for key in ("ttft", "tpot", "gap"):
        value = shown.pop(key)
        shown[f"{key}_ms"] = None if value is None else ms(value)
    shown["tools_ms"] = ms(shown.pop("tools_ns"))
    for call in shown["calls"]:
        for key in ("head_start", "waited", "saved", "sealed"):
            call[f"{key}_ms"] = ms(call.pop(key))
    return shown  # type: ignore[no-any-return]
