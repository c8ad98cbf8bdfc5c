"""Runs as metrics of Prometheus: what is scraped over HTTP, and what bounds it."""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from hotloop import Agent, ConfigError, tool
from hotloop.testing import ScriptedModel, call, raw, run_virtual
from hotloop.trace.ledger import AttemptFacts, CallFacts, ToolFacts, Usage
from hotloop.trace.prometheus.exporter import PrometheusExporter
from hotloop.trace.record import TraceRecord
from hotloop.trace.recording.recorder import recorder
from made_runs import run_of


@pytest.fixture
def exporter() -> Iterator[PrometheusExporter]:
    """One that serves at a free port once it is asked to, or has a run."""
    exporter = PrometheusExporter(port=0)
    yield exporter
    exporter.close()


def scraped(exporter: PrometheusExporter) -> dict[str, float]:
    """What Prometheus would read: values by name and labels, as it writes them itself."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{exporter.port}/metrics", timeout=10) as reply:
        return parsed(reply.read().decode())


def metrics_of(*runs: TraceRecord) -> dict[str, float]:
    """The same of these runs, without a server."""
    exporter = PrometheusExporter()
    exporter.export(runs)
    return parsed(generate_latest(exporter.registry).decode())


def parsed(text: str) -> dict[str, float]:
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {sample.name + _labels(sample.labels): sample.value for sample in samples}


def _labels(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in sorted(labels.items())) + "}"


def test_percentiles_are_exact_beside_histograms_that_add_up_over_processes():
    metrics = metrics_of(*(run_of({"lookup": number / 100}) for number in range(1, 101)))
    for share, seconds in (("0.5", 0.5), ("0.95", 0.95), ("0.99", 0.99)):
        assert metrics[f'hotloop_tool_quantile_seconds{{quantile="{share}",tool="lookup"}}'] == pytest.approx(seconds)
        assert metrics[f'hotloop_stage_quantile_seconds{{quantile="{share}",stage="tool"}}'] == pytest.approx(seconds)
        assert metrics[f'hotloop_model_quantile_seconds{{model="gpt",quantile="{share}"}}'] == pytest.approx(0.1)
        assert metrics[f'hotloop_run_quantile_seconds{{quantile="{share}"}}'] == pytest.approx(seconds + 0.2)
    assert metrics['hotloop_tool_seconds_count{tool="lookup"}'] == metrics["hotloop_run_seconds_count{}"] == 100
    assert metrics['hotloop_tool_seconds_bucket{le="0.4096",tool="lookup"}'] == 40
    stages = sum(value for name, value in metrics.items() if name.startswith("hotloop_stage_seconds_sum"))
    assert stages == pytest.approx(metrics["hotloop_run_seconds_sum{}"])
    assert metrics['hotloop_first_token_seconds_sum{model="gpt"}'] == pytest.approx(200 * 0.02)
    assert metrics['hotloop_token_quantile_seconds{model="gpt",quantile="0.95"}'] == 0.002


def test_runs_requests_tokens_and_calls_are_counted_by_what_came_of_them():
    run = run_of()
    run.attempts.append(AttemptFacts(0, "svc", "gpt", "retry", 0, 1, "failed", error="Overloaded"))
    run.attempts.append(AttemptFacts(1, "svc", "llama", "fallback", 0, 1, "ok", usage=Usage(10, 2)))
    run.turns[0].calls.append(CallFacts("call9", "lookup", "cached"))
    metrics = metrics_of(run, run_of(outcome="failed", error="RateLimited"), run_of(outcome="cancelled"))
    counted = {
        'runs_total{outcome="ok"}': 1,
        'runs_total{outcome="failed"}': 1,
        'runs_total{outcome="cancelled"}': 1,
        'run_failures_total{error="RateLimited"}': 1,
        "run_seconds_count{}": 1,
        'requests_total{model="gpt",outcome="failed",why="retry"}': 1,
        'requests_total{model="gpt",outcome="ok",why="first"}': 6,
        'tokens_total{kind="input",model="gpt"}': 6000,
        'tokens_total{kind="cached",model="gpt"}': 3000,
        'tokens_total{kind="output",model="llama"}': 2,
        'calls_total{outcome="cached",tool="lookup"}': 1,
        'calls_total{outcome="ok",tool="lookup"}': 3,
    }
    assert {name: metrics[f"hotloop_{name}"] for name in counted} == counted
    assert 'hotloop_tokens_total{kind="cached",model="llama"}' not in metrics  # which was not told


def test_labels_are_bounded_and_names_that_a_model_made_up_are_one():
    made_up = run_of(tools={"lookup": 0.1}, model="model1")
    made_up.tools = {"lookup": ToolFacts()}
    made_up.turns[0].calls = [CallFacts("1", "rm_rf", "refused")]
    many = [run_of({f"tool{number}": 0.1}, model=f"model{number}") for number in range(150)]
    metrics = metrics_of(*many, made_up)
    tools = [name for name in metrics if name.startswith("hotloop_tool_seconds_count")]
    assert len(tools) == 101
    assert metrics['hotloop_tool_seconds_count{tool="other"}'] == 51
    assert metrics['hotloop_model_seconds_count{model="other"}'] == 100
    assert metrics['hotloop_calls_total{outcome="refused",tool="other"}'] == 1
    assert not any("rm_rf" in name for name in metrics)


def test_percentiles_are_of_the_last_ten_minutes(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    exporter = PrometheusExporter()
    exporter.export([run_of({"lookup": 9.0})])
    now[0] += 599
    exporter.export([run_of({"lookup": 1.0})])
    p99 = ("hotloop_tool_quantile_seconds", {"tool": "lookup", "quantile": "0.99"})
    assert exporter.registry.get_sample_value(*p99) == 9
    now[0] += 2
    assert exporter.registry.get_sample_value(*p99) == 1
    now[0] += 600
    assert exporter.registry.get_sample_value(*p99) is None


def test_an_agents_runs_come_to_its_exporter_and_are_served_from_the_first_on(exporter):
    @tool(read_only=True)
    async def lookup(order: str) -> str:
        await asyncio.sleep(0.2)
        return "shipped"

    replies = [raw(b'{"error":{"message":"busy"}}', status=503), call("lookup", order="7"), "It is on its way."]
    agent = Agent(model="m", endpoint=ScriptedModel(replies, ttft=0.1), tools=[lookup], exporters=[exporter])

    async def ask():
        async with agent:
            return await agent.run("Where is order 7?")

    run_virtual(ask())
    assert recorder.flush(10)
    exporter.missed(7)
    metrics = scraped(exporter)
    assert metrics['hotloop_tool_seconds_sum{tool="lookup"}'] == pytest.approx(0.2, abs=0.001)
    assert metrics['hotloop_requests_total{model="m",outcome="ok",why="retry"}'] == 1
    assert metrics['hotloop_calls_total{outcome="ok",tool="lookup"}'] == 1
    assert metrics["hotloop_traces_dropped_total{}"] == 7


def test_a_port_that_is_taken_and_a_registry_that_is_in_use_are_told(exporter):
    exporter.serve()
    with pytest.raises(ConfigError, match=rf"cannot be served at 127.0.0.1:{exporter.port}: Address already in use"):
        PrometheusExporter(port=exporter.port).serve()
    with pytest.raises(ConfigError, match="for this registry already"):
        PrometheusExporter(registry=exporter.registry)
    with pytest.raises(ConfigError, match="0 to 65535"):
        PrometheusExporter(port=70_000)


def test_runs_are_counted_though_their_port_is_taken_and_served_once_it_is_free(exporter, caplog):
    exporter.serve()
    other = PrometheusExporter(port=exporter.port)
    model = ScriptedModel(lambda _: "Yes.")
    for answers in (1, 2):
        run_virtual(Agent(model="m", endpoint=model, exporters=[other]).run("Is it?"))
        assert recorder.flush(10)
        assert other.registry.get_sample_value("hotloop_runs_total", {"outcome": "ok"}) == answers
    (warning,) = caplog.records
    assert warning.getMessage().startswith("Runs are counted, but not shown to Prometheus until that works: Metrics ")
    exporter.close()
    other.export([run_of()])
    assert scraped(other)['hotloop_runs_total{outcome="ok"}'] == 3
    other.close()


def test_a_registry_of_ones_own_is_served_by_its_owner():
    registry = CollectorRegistry()
    exporter = PrometheusExporter(registry=registry)
    exporter.export([run_of()])
    assert exporter.port is None
    assert registry.get_sample_value("hotloop_runs_total", {"outcome": "ok"}) == 1


def test_it_serves_again_after_it_was_closed_with_what_it_had_counted(exporter):
    exporter.export([run_of()])
    exporter.close()
    exporter.close()
    assert exporter.port is None
    exporter.export([run_of()])
    assert scraped(exporter)['hotloop_runs_total{outcome="ok"}'] == 2
