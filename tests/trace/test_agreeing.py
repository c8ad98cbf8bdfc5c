"""Whoever reads a run says the same of it: its trace, the store, the report, the bill, alerts and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from hotloop import Agent, AlertRule, Alerts, Budget
from hotloop.insight.bill.billing import bill_of
from hotloop.insight.report import report
from hotloop.runs import Result
from hotloop.testing import ScriptedModel, run_virtual
from hotloop.trace.alerts.alert import Alert
from hotloop.trace.measured import Measured
from hotloop.trace.record import TraceRecord
from hotloop.trace.recorder import recorder
from hotloop.trace.store import TraceStore
from hotloop.trace.trace import Trace


class Kept:
    """An exporter that keeps what it is given, and a place for alerts."""

    name = "kept"

    def __init__(self) -> None:
        self.records: list[TraceRecord] = []
        self.alerts: list[Alert] = []

    def export(self, records: Sequence[TraceRecord]) -> None:
        self.records += records

    def tell(self, alert: Alert) -> None:
        self.alerts.append(alert)

    def close(self) -> None: ...


def kept_and_read(records: Sequence[TraceRecord], folder: Path) -> list[TraceRecord]:
    """What the store has of these records."""
    store = TraceStore(folder / "traces.db")
    store.export(records)
    found = list(store.find())
    store.close()
    return found


def test_a_budget_does_not_count_the_wait_for_a_session(tmp_path: Path) -> None:
    """The second run waits 200 ms for the first one, which would be over its budget if they counted."""
    kept = Kept()
    budget = Budget(total=0.25, other=0.1, turn=Budget(total=0.25))
    model = ScriptedModel(lambda _: "Yes.", ttft=0.2)
    agent = Agent(model="m", endpoint=model, budget=budget, sessions=":memory:", exporters=[kept])

    async def both() -> list[Result]:
        session = agent.session("ann")
        return await asyncio.gather(*[session.run("Is it?") for _ in range(2)])

    results = run_virtual(both())
    assert recorder.flush(10)
    records = kept_and_read(kept.records, tmp_path)
    assert max(result.trace.end_to_end_ms for result in results) >= 400
    assert [result.trace.budget() for result in results] == [Trace(record).budget() for record in records]
    for record in records:
        rows = {row.stage: row for row in Trace(record).budget()}
        assert (rows["other"].verdict, rows["total"].verdict) == ("ok", "ok")
        assert rows["total"].actual_ms == pytest.approx(sum(row.actual_ms for row in Trace(record).budget()[:-1]))
        measured = Measured(record).rows
        assert measured["total"] == measured["turn.total"] == pytest.approx(rows["total"].actual_ms * 1e6, abs=1000)
    assert [line.verdict for line in report(records).lines if line.acceptable] == ["ok"] * 3
    assert [line.over for line in bill_of(records, "1").budget] == [0] * 3
    rules = [AlertRule(when="end_to_end_p95", at_least=2), AlertRule(when="over_budget", over=0, at_least=2)]
    Alerts(rules, [kept]).export(records)
    assert kept.alerts == []
