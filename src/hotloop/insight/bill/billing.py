"""How a bill is made: recorded runs are added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

from hotloop.errors import ConfigError
from hotloop.insight.bill.bill import Bill, BudgetLine, Failures, Row, RowKind, Sum, Times
from hotloop.trace.declared import Declared
from hotloop.trace.ledger import AttemptFacts
from hotloop.trace.measured import Measured
from hotloop.trace.record import TraceRecord
from hotloop.trace.tokens import whole_sum
from hotloop.units import ms

T = TypeVar("T")

TOTAL = "end to end"
"""The name of the row that is the whole."""

_UNOWNED = "unattributed"
_ORDER: tuple[RowKind, ...] = ("total", "stage", "model", "tool")


def bill_of(records: Iterable[TraceRecord], version: str) -> Bill:
    """The bill of these runs, which are read once and not kept. Raises ConfigError if none of them has an answer."""
    billing = _Billing()
    for record in records:
        billing.add(record)
    if not billing.answered:
        had = f"none of the {billing.runs:,} runs has an answer" if billing.runs else "no run was found"
        raise ConfigError(f"There is no bill of {version}: {had}.")
    return billing.bill(version)


class _Part:
    """What is known of one row while runs are added; times in milliseconds, `critical` in nanoseconds."""

    __slots__ = ("amounts", "count", "critical", "failures", "runs", "values")

    def __init__(self) -> None:
        self.values: list[float] = []
        self.runs = self.count = self.critical = 0
        self.failures: Failures | None = None
        self.amounts = {name: Sum() for name in ("tokens_in", "cached", "tokens_out", "cost")}

    def add(self, took: Sequence[int], count: int | None = None) -> None:
        """What it took in one run, once or several times."""
        self.values += map(ms, took)
        self.count += len(took) if count is None else count
        self.runs += 1

    def add_ends(self, failed: Sequence[bool]) -> None:
        """Which of its calls in one run failed."""
        had = self.failures or Failures(0, 0, 0)
        self.failures = Failures(had.runs + 1, had.calls + len(failed), had.failed + sum(failed))

    def add_amounts(self, requests: Sequence[AttemptFacts], declared: Declared) -> None:
        """What its requests of one run came to."""
        told = [each.usage for each in requests]
        self.amounts["tokens_in"].add(whole_sum(usage.input_tokens for usage in told))
        self.amounts["cached"].add(whole_sum(usage.cached_tokens for usage in told))
        self.amounts["tokens_out"].add(whole_sum(usage.output_tokens for usage in told))
        self.amounts["cost"].add(declared.cost(requests))


class _Billing:
    """Runs, added up."""

    def __init__(self) -> None:
        self.runs = self.answered = self.failed = 0
        self._since = self._until = 0.0
        self._agents: set[str] = set()
        self._declared = Declared()
        self._limits: dict[str, int] = {}
        self._parts: dict[tuple[RowKind, str], _Part] = {}
        self._rows: dict[str, list[float]] = {}

    def add(self, record: TraceRecord) -> None:
        """One more run."""
        run, declared = Measured(record), record.declared
        self._since = min(self._since or record.started, record.started)
        if record.started >= self._until:  # what is declared now is what was declared last
            self._until, self._declared, self._limits = record.started, declared, record.limits
        self._agents.add(record.name)
        self.runs += 1
        self.failed += record.outcome == "failed"
        if record.outcome == "ok":
            self.answered += 1
            self._add_times(run)
        self._add_requests(run, declared)
        self._add_calls(run)

    def _add_times(self, run: Measured) -> None:
        self._part("total", TOTAL).add([run.took])
        self._part("total", TOTAL).critical += run.took
        counts: Counter[str] = Counter(stage.kind for stage in run.record.stages)
        rest = {_UNOWNED: run.took - sum(run.stages.values())}
        for kind, took in (run.stages | rest).items():
            if took:
                self._part("stage", kind).add([took], counts.get(kind, 1))
                self._part("stage", kind).critical += took
        for model, took in run.models.items():
            self._part("model", model).critical += took
        for tool, took in run.tools.items():
            self._part("tool", tool).critical += took
        for row, took in run.rows.items():
            self._rows.setdefault(row, []).append(ms(took))

    def _add_requests(self, run: Measured, declared: Declared) -> None:
        for model, took in _by_name((reply.model, reply.end - reply.start) for reply in run.replies).items():
            self._part("model", model).add(took)
        for model, requests in _by_name((request.model, request) for request in run.counted).items():
            self._part("model", model).add_amounts(requests, declared)
        if run.counted:
            self._part("total", TOTAL).add_amounts(run.counted, declared)

    def _add_calls(self, run: Measured) -> None:
        for tool, took in _by_name(run.calls).items():
            self._part("tool", tool).add(took)
        for tool, failed in _by_name(run.ends).items():
            self._part("tool", tool).add_ends(failed)

    def _part(self, kind: RowKind, name: str) -> _Part:
        if (kind, name) not in self._parts:
            self._parts[kind, name] = _Part()
        return self._parts[kind, name]

    def bill(self, version: str) -> Bill:
        """The bill of all that was added."""
        rows = [self._row(kind, name, part) for (kind, name), part in self._parts.items() if part.values]
        return Bill(
            version=version,
            agents=sorted(self._agents),
            runs=self.runs,
            answered=self.answered,
            failed=self.failed,
            since=self._since,
            until=self._until,
            rows=sorted(rows, key=lambda row: (_ORDER.index(row.kind), -row.critical)),
            budget=[self._line(name, limit) for name, limit in self._limits.items() if name in self._rows],
        )

    def _row(self, kind: RowKind, name: str, part: _Part) -> Row:
        of_all = kind in ("total", "stage")
        runs = self.answered if of_all else self.runs
        none = [0.0] * (runs - len(part.values)) if of_all else []  # a run without such a stage has had 0 ms of it
        return Row(
            kind=kind,
            name=name,
            owner=self._owner(kind, name),
            times=Times.of(part.values + none, runs if of_all else part.runs),
            per_run=part.count / runs,
            critical=ms(part.critical / self.answered),
            share=part.critical / (self._parts["total", TOTAL].critical or 1),
            failures=part.failures,
            **{name: each.amount(self.runs) for name, each in part.amounts.items() if kind in ("total", "model")},
        )

    def _line(self, name: str, limit: int) -> BudgetLine:
        took, most = self._rows[name], ms(limit)
        owner = self._declared.owners.of_stage(name)
        return BudgetLine(name, owner, most, Times.of(took, len(took)), sum(each > most for each in took))

    def _owner(self, kind: RowKind, name: str) -> str:
        owners = self._declared.owners
        if kind == "tool":
            return owners.of_tool(name)
        if kind == "model":
            return owners.of_model(name)
        return owners.of_stage("total" if kind == "total" else name)


def _by_name(named: Iterable[tuple[str, T]]) -> dict[str, list[T]]:
    found: dict[str, list[T]] = {}
    for name, each in named:
        found.setdefault(name, []).append(each)
    return found
