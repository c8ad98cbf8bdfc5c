"""Bills and comparisons, ready for JSON: what a person is shown, with every interval."""

from __future__ import annotations

from typing import Any

import msgspec

from hotloop.insight.bill.bill import Bill, Failures, Row, Times
from hotloop.insight.bill.comparing import LEVEL, Diff, limits

_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_ABOUT = ("version", "agents", "runs", "answered", "failed", "since", "until")
_OF_A_ROW = ("kind", "name", "owner", "per_run", "share", "tokens_in", "cached", "tokens_out", "cost")


def bill_dict(bill: Bill) -> dict[str, Any]:
    """A bill; times in milliseconds. An end of an interval that is not known is infinite, and so null in JSON."""
    about = {name: getattr(bill, name) for name in _ABOUT}
    budget = msgspec.to_builtins(limits(bill))
    return about | {"level": LEVEL, "rows": [_row_dict(row) for row in bill.rows], "budget": budget}


def diff_dict(diff: Diff) -> dict[str, Any]:
    """A comparison, with both bills."""
    return {
        "held": diff.held,
        "tolerance": diff.tolerance,
        "changes": msgspec.to_builtins(diff.changes),
        "budget": msgspec.to_builtins(diff.limits),
        "new": [_row_dict(row) for row in diff.new],
        "gone": [_row_dict(row) for row in diff.gone],
        "before": bill_dict(diff.before),
        "after": bill_dict(diff.after),
    }


def _row_dict(row: Row) -> dict[str, Any]:
    about = {name: msgspec.to_builtins(getattr(row, name)) for name in _OF_A_ROW}
    failures = None if row.failures is None else _failures_dict(row.failures)
    return about | {"critical_ms": row.critical, "times": _times_dict(row.times), "failures": failures}


def _failures_dict(failures: Failures) -> dict[str, Any]:
    return msgspec.structs.asdict(failures) | {"share": msgspec.structs.asdict(failures.estimate(LEVEL))}


def _times_dict(times: Times) -> dict[str, Any]:
    shown: dict[str, Any] = {"runs": times.runs, "values": times.values, "mean": times.mean}
    for name, share in _QUANTILES.items():
        shown[name] = msgspec.structs.asdict(times.estimate(share, LEVEL))
    return shown
