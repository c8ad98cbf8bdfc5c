"""Whoever reads a run says the same of it: its trace, the store, the report, the bill, alerts and metrics."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from hotloop import Agent, AlertRule, Alerts, Budget, Model, OTelExporter, PrometheusExporter, Usage
from hotloop.insight.bill.billing import bill_of
from hotloop.insight.report import report
from hotloop.lab.evaluation.prices import price_of
from hotloop.runs import Result
from hotloop.testing import ScriptedModel, run_virtual
from hotloop.trace.alerts.alert import Alert
from hotloop.trace.declared import Declared, Price
from hotloop.trace.ledger import AttemptFacts
from hotloop.trace.measured import Measured
from hotloop.trace.otel.spans import spans_of
from hotloop.trace.record import TraceRecord
from hotloop.trace.recording.recorder import recorder
from hotloop.trace.store import TraceStore
from hotloop.trace.trace import Trace
from made_runs import run_of

USED = Usage(1000, 50, 500, 0)


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
    with closing(TraceStore(folder / "traces.db")) as store:
        store.export(records)
        return list(store.find())


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


def request(why: Any, outcome: str, usage: Usage = USED, model: str = "gpt") -> AttemptFacts:
    return AttemptFacts(1, "svc", model, why, 0, 1, outcome, usage=usage)


def in_metrics(record: TraceRecord) -> tuple[float, float]:
    """Input and output tokens as OpenTelemetry's metrics have them."""
    reader = InMemoryMetricReader()
    OTelExporter(meter_provider=MeterProvider([reader], shutdown_on_exit=False)).export([record])
    data = reader.get_metrics_data()
    assert data is not None
    metrics = {each.name: each.data.data_points for each in data.resource_metrics[0].scope_metrics[0].metrics}
    sums = Counter[str]()
    for point in metrics["gen_ai.client.token.usage"]:
        sums[str(point.attributes["gen_ai.token.type"])] += point.sum
    return sums["input"], sums["output"]


def in_prometheus(record: TraceRecord) -> tuple[float, float]:
    exporter = PrometheusExporter()
    exporter.export([record])
    samples = [each for family in exporter.registry.collect() for each in family.samples]
    told = [each for each in samples if each.name == "hotloop_tokens_total"]
    first, second = (sum(each.value for each in told if each.labels["kind"] == kind) for kind in ("input", "output"))
    return first, second


def test_tokens_and_cost_are_those_of_all_requests_whose_service_told_them(tmp_path: Path) -> None:
    """Two good replies, and whatever else a service counts and bills; not what it told nothing of."""
    declared = Declared(prices=(Price("svc", "gpt", 1.0, 4.0), Price("svc", "small", 0.5, 0.5)))
    record = run_of(usage=USED, declared=declared)
    record.attempts += [
        request("retry", "rejected"),
        request("hedge", "lost"),
        request("retry", "failed"),
        request("retry", "failed", Usage()),
        request("hedge", "lost", Usage()),
        request("prefill", "ok", Usage(900, 1, 900)),
        request("summary", "ok", Usage(500, 20, 0), "small"),
    ]
    tokens = (5 * 1000 + 900 + 500, 5 * 50 + 1 + 20)
    cost = ((5 * 1000 + 900) * 1.0 + (5 * 50 + 1) * 4.0 + 520 * 0.5) / 1e6
    models = [
        Model(name=name, endpoint="http://svc/v1", price_in=price, price_out=out)
        for name, price, out in (("gpt", 1.0, 4.0), ("small", 0.5, 0.5))
    ]

    (found,) = kept_and_read([record], tmp_path)
    with closing(TraceStore(tmp_path / "traces.db")) as store:
        (info,) = store.infos()
    whole, used = bill_of([found], "1").total, Trace(found).usage
    assert whole.tokens_in and whole.tokens_out and whole.cost
    spans = [span.attributes for span in spans_of(found)]
    in_spans = (sum(span.get(f"gen_ai.usage.{kind}_tokens", 0) for span in spans) for kind in ("input", "output"))
    assert (used.input_tokens, used.output_tokens) == tokens
    assert (info.input_tokens, info.output_tokens) == tokens
    assert (whole.tokens_in.mean, whole.tokens_out.mean) == tokens
    assert tuple(in_spans) == in_metrics(found) == in_prometheus(found) == tokens
    assert whole.cost.mean == price_of(models)(Trace(found)) == pytest.approx(cost)
