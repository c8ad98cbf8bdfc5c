"""Two bills held against each other: what has changed beyond chance, what it costs, and what is over its budget."""

from __future__ import annotations

from collections.abc import Iterator
from math import isinf
from typing import Literal

import msgspec

from hotloop.insight.bill.bill import Bill, BudgetLine, Row, RowKind, Times
from hotloop.insight.bill.intervals import difference, level_of_each, share_interval
from hotloop.insight.estimate import Estimate

LEVEL = 0.95
"""How sure it is that none of all changes that are called one is chance."""

_SMALL = 0.01  # of the end to end: what a stage below it does is not judged
_QUANTILES = {"p50": 0.5, "p95": 0.95}

Verdict = Literal["worse", "better", "same", "too few runs"]


class Change(msgspec.Struct, frozen=True):
    """One figure in both bills: a time in milliseconds, tokens or cost of a run, a share of runs or of calls; more is
    worse.

    The true change lies from `low` to `high`; it is called one if 0 does not. `beyond` tells that it is worse by more
    than was tolerated. `costs` is the milliseconds that the row has more of a run's critical path.
    """

    kind: RowKind
    name: str
    owner: str
    measure: str
    before: float
    after: float
    low: float
    high: float
    verdict: Verdict
    beyond: bool
    costs: float


class Limit(msgspec.Struct, frozen=True):
    """A row of the budget; times in milliseconds.

    "over" is a p95 that is surely over the limit, "ok" one that surely is not; the true one lies from `low` to `high`.
    `newly` tells that it is over, and the earlier version, which had a limit there too, would not have been.
    """

    name: str
    owner: str
    limit: float
    p95: float
    low: float
    high: float
    over_share: float
    verdict: Literal["over", "ok", "unclear"]
    newly: bool = False


class Diff(msgspec.Struct, frozen=True):
    """A version against an earlier one: the worst and costliest first. Rows that are `new` or `gone` were not compared.

    `held` tells that nothing became worse beyond what was tolerated, and nothing newly went over its budget.
    """

    before: Bill
    after: Bill
    tolerance: float
    held: bool
    changes: list[Change]
    limits: list[Limit]
    new: list[Row]
    gone: list[Row]


def compare(before: Bill, after: Bill, tolerance: float = 0.05) -> Diff:
    """The later bill against the earlier one. `tolerance` is the share by which a figure may become worse."""
    earlier = {(row.kind, row.name): row for row in before.rows}
    later = {(row.kind, row.name): row for row in after.rows}
    both = [(earlier[key], later[key]) for key in later if key in earlier]
    figures = [(rows, measure) for rows in both for measure in _measures(*rows)]
    level = level_of_each(LEVEL, len(figures))
    changes = []
    for rows, measure in figures:
        estimates = [_estimate(bill, row, measure, level) for bill, row in zip((before, after), rows, strict=True)]
        changes.append(_change(*rows, measure, *estimates, tolerance=tolerance))
    budget = limits(after, before)
    return Diff(
        before=before,
        after=after,
        tolerance=tolerance,
        held=not any(change.beyond for change in changes) and not any(limit.newly for limit in budget),
        changes=sorted(changes, key=lambda change: (change.verdict != "worse", -change.costs)),
        limits=budget,
        new=[row for key, row in later.items() if key not in earlier],
        gone=[row for key, row in earlier.items() if key not in later],
    )


def limits(bill: Bill, before: Bill | None = None) -> list[Limit]:
    """What of its budget a version keeps, and what of that an earlier one had kept."""
    earlier = {line.name: line.times for line in before.budget} if before is not None else {}
    return [_limit(line, earlier.get(line.name)) for line in bill.budget]


def _limit(line: BudgetLine, earlier: Times | None) -> Limit:
    p95 = line.times.estimate(_QUANTILES["p95"], LEVEL)
    over = _over(line.times, line)
    return Limit(
        name=line.name,
        owner=line.owner,
        limit=line.limit,
        p95=p95.value,
        low=p95.low,
        high=p95.high,
        over_share=line.over / line.times.values,
        verdict="over" if over else "ok" if p95.high <= line.limit else "unclear",
        newly=over and earlier is not None and not _over(earlier, line),
    )


def _over(times: Times, line: BudgetLine) -> bool:
    """Whether the p95 of these times is surely over the limit of the line."""
    return times.estimate(_QUANTILES["p95"], LEVEL).low > line.limit


def _measures(before: Row, after: Row) -> Iterator[str]:
    """What of a row is compared: its times, how often it failed, and of the whole what is known of the rest."""
    if after.kind != "stage" or max(before.share, after.share) >= _SMALL:
        yield from _QUANTILES
    if after.kind == "total" or (before.failures and after.failures):
        yield "failed"
    if after.kind == "total":
        yield from (
            each for each in ("tokens_in", "tokens_out", "cost") if getattr(before, each) and getattr(after, each)
        )


def _estimate(bill: Bill, row: Row, measure: str, level: float) -> Estimate:
    if measure in _QUANTILES:
        return row.times.estimate(_QUANTILES[measure], level)
    if measure == "failed" and row.failures is not None:
        return row.failures.estimate(level)
    if measure == "failed":
        ended = bill.answered + bill.failed
        return Estimate(bill.failed / ended, *share_interval(bill.failed, ended, level))
    estimate: Estimate = getattr(row, measure).estimate(level)
    return estimate


def _change(earlier: Row, later: Row, measure: str, before: Estimate, after: Estimate, *, tolerance: float) -> Change:
    change = difference(before, after)
    verdict = _verdict(change.low, change.high)
    return Change(
        kind=later.kind,
        name=later.name,
        owner=later.owner,
        measure=measure,
        before=before.value,
        after=after.value,
        low=change.low,
        high=change.high,
        verdict=verdict,
        beyond=verdict == "worse" and change.value > tolerance * before.value,
        costs=later.critical - earlier.critical,
    )


def _verdict(low: float, high: float) -> Verdict:
    if low > 0:
        return "worse"
    if high < 0:
        return "better"
    return "too few runs" if isinf(high - low) else "same"
