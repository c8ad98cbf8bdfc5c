"""A finished run, to be read: its stages, its critical path, its turns, and the budget held against them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from hotloop.trace.ledger import Ledger, Stage, TurnFacts, Usage
from hotloop.units import NS_PER_MS, ms

_log = logging.getLogger("hotloop.trace")

ROWS: dict[str, tuple[str, ...]] = {
    "model": ("queue", "prefill", "decode"),
    "tools": ("tool", "wait", "guard", "approval", "cache"),
    "memory": ("memory",),
    "network": ("connect",),
    "other": ("context", "parse", "emit", "overhead"),
}


class BudgetRow(NamedTuple):
    """One line of the budget: times in milliseconds, `share` of the whole run, `verdict` "ok", "over" or "-"."""

    stage: str
    acceptable_ms: float | None
    actual_ms: float
    verdict: str
    share: float


class Trace:
    """What one run was. `limits` are the budget's rows in nanoseconds; printing a trace shows timeline and budget."""

    def __init__(self, ledger: Ledger, limits: Mapping[str, int] | None = None) -> None:
        self._ledger = ledger
        self._limits = dict(limits or {})
        self._path: list[Stage] | None = None

    @property
    def trace_id(self) -> str:
        """The run's id."""
        return self._ledger.trace_id

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
        owned = sum(stage.end - stage.start for stage in self.critical_path())
        return ms(self._ledger.end - self._ledger.start - owned)

    @property
    def turns(self) -> list[TurnFacts]:
        """The model's replies."""
        return self._ledger.turns

    @property
    def usage(self) -> Usage:
        """The tokens of all turns; a count that no turn has is unknown."""
        return Usage(*(_sum(counts) for counts in zip(*(_counts(facts) for facts in self.turns), strict=True)))

    @property
    def stages(self) -> list[Stage]:
        """All stages as they were recorded, in nanoseconds of the run's clock."""
        return self._ledger.stages

    @property
    def start(self) -> int:
        """The run's start in nanoseconds of its clock."""
        return self._ledger.start

    def critical_path(self) -> list[Stage]:
        """The stages, cut to size, that the run could not have ended without: the way back from its end, each time
        to the stage that ended last."""
        if self._path is None:
            self._path = _critical_path(self._ledger.stages, self._ledger.end)
        return self._path

    def critical_ms(self) -> dict[str, float]:
        """Milliseconds on the critical path by stage kind."""
        sums: dict[str, int] = {}
        for stage in self.critical_path():
            sums[stage.kind] = sums.get(stage.kind, 0) + stage.end - stage.start
        return {kind: ms(spent) for kind, spent in sums.items()}

    def budget(self) -> list[BudgetRow]:
        """What each part of the run took on the critical path, against what was acceptable; "total" is last."""
        spent = self.critical_ms()
        total = self.end_to_end_ms
        actual = {row: sum(spent.get(kind, 0.0) for kind in kinds) for row, kinds in ROWS.items()}
        return [self._row(row, value, total) for row, value in (actual | {"total": total}).items()]

    def _row(self, row: str, actual: float, total: float) -> BudgetRow:
        limit = self._limits.get(row)
        acceptable = None if limit is None else limit / NS_PER_MS
        verdict = "-" if acceptable is None else "ok" if actual <= acceptable else "over"
        return BudgetRow(row, acceptable, round(actual, 3), verdict, actual / total if total else 0.0)

    def log_lines(self) -> list[str]:
        """The run as log lines: a line per reply, per round of tools, and for the whole; each with its start time."""
        lines: list[tuple[int, str]] = []
        for facts in self.turns:
            lines.append((self._first_start(facts.turn, ("context",)), _reply_line(facts)))
            if facts.tools_ns:
                names = ", ".join(facts.tools)
                text = f"tools=[{names}] max_parallel={self._ledger.facts.get('max_parallel')}"
                started = self._first_start(facts.turn, ROWS["tools"])
                lines.append((started, f"turn={facts.turn} {text} total_ms={_number(facts.tools_ns)}"))
        end = self._ledger.end
        lines.append((end, f"end_to_end={_number(end - self.start)}ms turns={len(self.turns)}"))
        return [f"{self._stamp(at)} [trace={self.trace_id}] {text}" for at, text in lines]

    def log(self) -> None:
        """Write the log lines to the logger "hotloop.trace", if anybody listens at level INFO."""
        if _log.isEnabledFor(logging.INFO):
            for line in self.log_lines():
                _log.info(line)

    def _first_start(self, turn: int, kinds: tuple[str, ...]) -> int:
        starts = [stage.start for stage in self.stages if stage.turn == turn and stage.kind in kinds]
        return min(starts, default=self.start)

    def _stamp(self, at: int) -> str:
        moment = self.started + timedelta(microseconds=(at - self.start) / 1000)
        return moment.isoformat(sep=" ", timespec="milliseconds")

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON: times in milliseconds from the start of the run."""
        critical: set[tuple[str, int, int]] = {(stage.kind, stage.lane, stage.end) for stage in self.critical_path()}
        return {
            "trace_id": self.trace_id,
            "agent": self.name,
            "started": self.started.astimezone().isoformat(timespec="milliseconds"),
            "end_to_end_ms": self.end_to_end_ms,
            "unattributed_ms": self.unattributed_ms,
            "turns": [_turn_dict(facts) for facts in self.turns],
            "stages": [self._stage_dict(stage, critical) for stage in self.stages],
            "critical_ms": self.critical_ms(),
            "budget": [row._asdict() for row in self.budget()],
            **self._ledger.facts,
        }

    def _stage_dict(self, stage: Stage, critical: set[tuple[str, int, int]]) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "kind": stage.kind,
            "turn": stage.turn,
            "lane": stage.lane,
            "start_ms": ms(stage.start - self.start),
            "ms": ms(stage.end - stage.start),
            "critical": (stage.kind, stage.lane, stage.end) in critical,
        }
        return shown | {key: value for key, value in (("name", stage.name), ("note", stage.note)) if value}

    def __str__(self) -> str:
        from hotloop.trace.text import budget_table, timeline

        return f"{timeline(self)}\n\n{budget_table(self)}"


def _counts(facts: TurnFacts) -> tuple[int | None, ...]:
    return msgspec.structs.astuple(facts.usage)


def _sum(counts: tuple[int | None, ...]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _critical_path(stages: list[Stage], end: int) -> list[Stage]:
    path = []
    cursor = end
    for stage in sorted(stages, key=lambda stage: (-stage.end, stage.kind == "wait", stage.start)):
        if stage.start < cursor:
            path.append(msgspec.structs.replace(stage, end=min(stage.end, cursor)))
            cursor = stage.start
    return path[::-1]


def _reply_line(facts: TurnFacts) -> str:
    tpot = "buffered" if facts.buffered else _ms_or_unknown(facts.tpot)
    counted = {"input_tokens": facts.usage.input_tokens, "output_tokens": facts.usage.output_tokens}
    tokens = {name: "unknown" if count is None else count for name, count in counted.items()}
    return (
        f"turn={facts.turn} input_tokens={tokens['input_tokens']} ttft={_ms_or_unknown(facts.ttft)} "
        f"tpot={tpot} output_tokens={tokens['output_tokens']}"
    )


def _ms_or_unknown(nanoseconds: int | None) -> str:
    return "unknown" if nanoseconds is None else f"{_number(nanoseconds)}ms"


def _number(nanoseconds: int) -> str:
    """Whole milliseconds from 10 on, two decimals that matter below."""
    value = nanoseconds / NS_PER_MS
    return f"{value:.0f}" if value >= 10 else f"{value:.2f}".rstrip("0").rstrip(".")


def _turn_dict(facts: TurnFacts) -> dict[str, Any]:
    shown = msgspec.to_builtins(facts)
    shown |= shown.pop("usage")
    for key in ("ttft", "tpot"):
        value = shown.pop(key)
        shown[f"{key}_ms"] = None if value is None else ms(value)
    shown["tools_ms"] = ms(shown.pop("tools_ns"))
    return shown  # type: ignore[no-any-return]
