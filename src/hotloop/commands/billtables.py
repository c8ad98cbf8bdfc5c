"""A bill as tables, and how its figures are written."""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf

from hotloop.commands.console import moment
from hotloop.commands.grids import Grid
from hotloop.insight.bill.bill import Amount, Bill, Row, RowKind, Times
from hotloop.insight.bill.comparing import LEVEL, Limit, limits
from hotloop.units import show_ms
from hotloop.words import counted

AMOUNTS = {"tokens_in": "tokens in", "cached": "cached", "tokens_out": "tokens out", "cost": "cost of 1,000"}
TIMES = ("per run", "mean", "p50", "p95", "p99", "of a run", "share")
SURELY = f"surely ({LEVEL:.0%})"
"""Above the interval of what stands before it."""
FAILURES = ("calls", "failed", SURELY)

NOTHING = "-"
"""Stands for nobody, and for what is not known."""

_RUNS = 1000  # that a cost is told of: of one it is too small a number
_FEW = " (≥: there are too few runs to say that it is not more)"


def bill_head(bill: Bill) -> str:
    """What a bill is of, in a line."""
    return f"{bill.version} · {agents(bill)} · {runs(bill)} · {moment(bill.since)} to {moment(bill.until)}"


def bill_grids(bill: Bill) -> list[Grid]:
    """The tables of a bill: times, tokens and cost, the budget."""
    rows = [(*_what(row), *_with_interval(times(row), _p95(row))) for row in bill.rows]
    few = _FEW if any("≥" in cell for row in rows for cell in row) else ""
    headings = ("", "owner", *_with_interval(TIMES, SURELY))
    costly = [row for row in bill.rows if costs(row)]
    return [
        Grid(f"Times of a run, a request, a call{few}", headings, rows, texts=2),
        *amounts_grid([(*_what(row), *amounts(row)) for row in costly]),
        *failures_grid([(*_what(row), *failures(row)) for row in bill.rows if fails(row)]),
        *budget_grid(limits(bill)),
    ]


def times(row: Row) -> tuple[str, ...]:
    """The cells of a row under `TIMES`."""
    quantiles = (_quantile(row.times, share) for share in (0.5, 0.95, 0.99))
    return (f"{row.per_run:,.2f}", show_ms(row.times.mean), *quantiles, show_ms(row.critical), f"{row.share:.1%}")


def costs(row: Row) -> bool:
    """Whether anything is known of its tokens."""
    return any(getattr(row, name) is not None for name in AMOUNTS)


def amounts(row: Row) -> tuple[str, ...]:
    """The cells of a row under `AMOUNTS`."""
    told: list[tuple[str, Amount | None]] = [(name, getattr(row, name)) for name in AMOUNTS]
    return tuple(NOTHING if amount is None else figure(name, amount.mean) for name, amount in told)


def amounts_grid(rows: list[tuple[str, ...]]) -> list[Grid]:
    """The table of tokens and cost, if there are any."""
    return [Grid("Tokens and cost of a run", ("", "owner", *AMOUNTS.values()), rows, texts=2)] if rows else []


def fails(row: Row) -> bool:
    """Whether any of its calls failed."""
    return row.failures is not None and row.failures.failed > 0


def failures(row: Row) -> tuple[str, ...]:
    """The cells of a row under `FAILURES`."""
    if row.failures is None:
        return (NOTHING,) * len(FAILURES)
    share = row.failures.estimate(LEVEL)
    return f"{row.failures.calls:,}", f"{share.value:.1%}", f"{share.low:.1%} .. {share.high:.1%}"


def failures_grid(rows: list[tuple[str, ...]]) -> list[Grid]:
    """The table of calls that failed, if there are any."""
    return [Grid("Calls that failed", ("", "owner", *FAILURES), rows, texts=2)] if rows else []


def budget_grid(found: Sequence[Limit]) -> list[Grid]:
    """The table of the budget, if there is one: what is over it first."""
    rows = [_limit(each) for each in sorted(found, key=lambda each: each.limit - each.p95)]
    headings = ("", "owner", "verdict", "limit", "p95", "over by", "runs over")
    return [Grid("The budget", headings, rows, texts=3)] if rows else []


def figure(measure: str, value: float) -> str:
    """A value of this measure, for a person."""
    if measure == "failed":
        return f"{value:.1%}"
    if measure == "cost":
        return f"{value * _RUNS:,.4g}"
    return f"{value:,.0f}" if measure in AMOUNTS else show_ms(value)


def signed(measure: str, value: float) -> str:
    """A difference of this measure, for a person."""
    return "?" if isinf(value) else f"{'-' if value < 0 else '+'}{figure(measure, abs(value))}"


def named(kind: RowKind, name: str) -> str:
    """What a row is called."""
    return name if kind == "total" else f"{kind} {name}"


def agents(bill: Bill) -> str:
    """Whose runs they are."""
    return ", ".join(name or "an agent without a name" for name in bill.agents)


def runs(bill: Bill) -> str:
    """How many runs a bill is of."""
    return counted(bill.runs, "run") + (f" ({bill.failed:,} failed)" if bill.failed else "")


def _what(row: Row) -> tuple[str, str]:
    return named(row.kind, row.name), row.owner or NOTHING


def _with_interval(cells: tuple[str, ...], interval: str) -> tuple[str, ...]:
    """The cells of a row, with that of the p95's interval behind the p95."""
    place = TIMES.index("p95") + 1
    return (*cells[:place], interval, *cells[place:])


def _p95(row: Row) -> str:
    """Between which two the p95 lies."""
    found = row.times.estimate(0.95, LEVEL)
    low = show_ms(found.low)
    return f"{low} or more" if isinf(found.high) else f"{low.removesuffix(' ms')} .. {show_ms(found.high)}"


def _quantile(values: Times, share: float) -> str:
    found = values.estimate(share, LEVEL)
    return f"{'≥ ' if isinf(found.high) else ''}{show_ms(found.value)}"


def _limit(limit: Limit) -> tuple[str, ...]:
    verdict = "newly over" if limit.newly else limit.verdict
    over = (show_ms(limit.limit), show_ms(limit.p95), signed("p95", limit.p95 - limit.limit))
    return (limit.name, limit.owner or NOTHING, verdict, *over, f"{limit.over_share:.1%}")
