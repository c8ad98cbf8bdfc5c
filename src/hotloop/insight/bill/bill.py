"""A bill: what each stage, model and tool of an agent takes and costs, from its runs, and whose it is."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, sqrt
from typing import Literal

import msgspec

from hotloop.insight.bill.intervals import mean_interval, ranks, share_interval
from hotloop.insight.estimate import Estimate
from hotloop.trace.stats import rank_of

POINTS = 1000
"""Values of which a distribution is kept, at most."""

RowKind = Literal["total", "stage", "model", "tool"]


class Times(msgspec.Struct, frozen=True):
    """Milliseconds, in `values` from so many `runs`; `points` are all of them in order, or a thousand nearest ranks.

    Values of one run are not independent, so a percentile is taken to be as sure as one of `runs` values.
    """

    runs: int
    values: int
    mean: float
    points: list[float]

    @classmethod
    def of(cls, values: Sequence[float], runs: int) -> Times:
        """The distribution of these values, of which there is one or more."""
        points = ordered = sorted(values)
        if len(ordered) > POINTS:
            points = [ordered[rank_of(place / POINTS, len(ordered)) - 1] for place in range(1, POINTS + 1)]
        return cls(runs, len(ordered), sum(ordered) / len(ordered), points)

    def at(self, share: float) -> float:
        """The nearest-rank quantile of this share: 0.95 for the p95."""
        return self.points[rank_of(share, len(self.points)) - 1]

    def estimate(self, share: float, level: float) -> Estimate:
        """The same, and where the true one lies."""
        low, high = ranks(self.runs, share, level)
        below = self.at(low / self.runs) if low else 0.0
        above = self.at(high / self.runs) if high <= self.runs else inf
        return Estimate(self.at(share), below, above)


class Amount(msgspec.Struct, frozen=True):
    """What something came to in a run, on average of the `runs` in which it is known."""

    runs: int
    mean: float
    deviation: float

    def estimate(self, level: float) -> Estimate:
        """The mean, and where the true one lies."""
        return Estimate(self.mean, *mean_interval(self.runs, self.mean, self.deviation, level))


class Failures(msgspec.Struct, frozen=True):
    """How many of the calls of a tool `failed`; the others gave a result, or what stands in for one.

    Calls of one run are not independent, so the share is taken to be as sure as one of `runs` values.
    """

    runs: int
    calls: int
    failed: int

    @property
    def share(self) -> float:
        """The failed ones of all."""
        return self.failed / self.calls

    def estimate(self, level: float) -> Estimate:
        """The share, and where the true one lies."""
        return Estimate(self.share, *share_interval(self.share * self.runs, self.runs, level))


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One part of an agent.

    Its `times` are those of a run (of "total" and of a "stage", on the critical path), of a request that was answered
    (of a "model"), or of a call (of a "tool"); `per_run` is how many of these there are. `critical` is the milliseconds
    of a run that it has on the critical path, `share` that part of the end to end. Tokens and `cost` are those of a
    run, `failures` those of a tool's calls; None is not known.
    """

    kind: RowKind
    name: str
    owner: str = ""
    times: Times
    per_run: float
    critical: float
    share: float
    tokens_in: Amount | None = None
    cached: Amount | None = None
    tokens_out: Amount | None = None
    cost: Amount | None = None
    failures: Failures | None = None


class BudgetLine(msgspec.Struct, frozen=True):
    """A row of the budget (times in milliseconds): its limit, and in how many runs it was `over`."""

    name: str
    owner: str
    limit: float
    times: Times
    over: int


class Bill(msgspec.Struct, frozen=True, kw_only=True):
    """What the runs of one version came to; `since` and `until` are Unix seconds, when the first and last began.

    Of the `runs` some have an answer, some `failed`, and the rest was cancelled, or waits for a person. Times of stages
    and of the whole are those of runs with an answer; what was asked of models and tools is of all.
    """

    version: str
    agents: list[str]
    runs: int
    answered: int
    failed: int
    since: float
    until: float
    rows: list[Row]
    budget: list[BudgetLine] = []

    @property
    def total(self) -> Row:
        """The whole, which is the first of the rows."""
        return self.rows[0]


class Sum:
    """Adds up what runs came to, to an `Amount`; a run in which it is not known counts in `unknown`."""

    __slots__ = ("squares", "total", "unknown")

    def __init__(self) -> None:
        self.total = self.squares = 0.0
        self.unknown = 0

    def add(self, value: float | None) -> None:
        """What it was in one run; runs that are not told of have had nothing of it."""
        if value is None:
            self.unknown += 1
        else:
            self.total += value
            self.squares += value * value

    def amount(self, runs: int) -> Amount | None:
        """What it is on average of so many runs; None if it is known of none."""
        known = runs - self.unknown
        if not known:
            return None
        mean = self.total / known
        spread = max(self.squares - self.total * mean, 0.0)
        return Amount(known, mean, sqrt(spread / (known - 1)) if known > 1 else 0.0)
