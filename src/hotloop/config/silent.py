"""Alerts that can never be told, as far as a declaration says so itself."""

from __future__ import annotations

from collections.abc import Iterator

from hotloop.config.spec import AgentSpec
from hotloop.trace.alerts.rule import AlertRule


def silent_alerts(spec: AgentSpec) -> Iterator[tuple[int, str]]:
    """The place in `telemetry.alerts` of each rule that has nothing to be held against, and what is missing."""
    limits = {} if spec.budget is None else spec.budget.limits()
    for place, rule in enumerate(spec.telemetry.alerts):
        if rule.of_context and spec.context.limit is None:
            yield place, f"{rule.over} of what? Set context.limit, or give tokens"
        elif (row := _row_of(rule)) is not None and row not in limits:
            yield place, f"it is held against budget.{row}, which is not set; set it, or give over"
        elif rule.when == "over_budget" and rule.row is not None and rule.row not in limits:
            yield place, f"it is about budget.{rule.row}, which is not set"
        elif rule.when == "over_budget" and not limits:
            yield place, "it is about the budget, and there is none"


def _row_of(rule: AlertRule) -> str | None:
    """The row of the budget that a rule takes its limit from; None if it has its own."""
    rows = {"tool_p95": "tools", "end_to_end_p95": "total"}
    return rows.get(rule.when) if rule.over is None else None
