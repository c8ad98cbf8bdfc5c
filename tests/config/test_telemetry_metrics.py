"""Metrics and alerts, as a file declares them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotloop.config.spec import load_spec
from hotloop.errors import ConfigError
from hotloop.trace.alerts.alerts import Alerts
from hotloop.trace.prometheus.exporter import PrometheusExporter
from made_runs import run_of

LEAST = "inference: {endpoint: 'http://localhost:1/v1', model: m1}\n"
ALL = """\
telemetry:
  prometheus: {port: 0}
  webhook: https://hooks.example.org/services/T0/${HOOK}
  alerts:
    - {when: tool_p95, tool: lookup, over: 400ms, window: 5m, at_least: 1, to: [log, prometheus]}
    - {when: error_rate, over: 5%}
"""


def declared(folder: Path, text: str) -> Path:
    path = folder / "agent.yaml"
    path.write_text(LEAST + text)
    return path


def test_runs_are_counted_and_held_against_the_rules(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("HOOK", "secret")
    spec = load_spec(declared(tmp_path, ALL))
    metrics, alerts = spec.telemetry.exporters()
    assert isinstance(metrics, PrometheusExporter)
    assert isinstance(alerts, Alerts)
    assert load_spec(tmp_path / "agent.yaml").telemetry.exporters() == [metrics, alerts]
    assert "secret" not in repr(spec)
    slow = [run_of({"lookup": 0.5})]
    metrics.export(slow)
    alerts.export(slow)
    try:
        assert metrics.port
        labels = {"alert": "tool_p95", "agent": "orders", "of": "lookup"}
        assert metrics.registry.get_sample_value("hotloop_alert", labels) == 1
    finally:
        metrics.close()
    assert "the p95 of the tool lookup is 500 ms, over 400 ms" in caplog.text


def test_each_mistake_is_named(tmp_path):
    text = """\
telemetry:
  prometheus: {port: 70000}
  alerts:
    - {when: tool_p95, over: 5%}
    - {when: error_rate, over: 0.1, at_leest: 3}
"""
    with pytest.raises(ConfigError) as error:
        load_spec(declared(tmp_path, text))
    assert [line.split("agent.yaml")[1] for line in str(error.value).splitlines()] == [
        ":3: telemetry.prometheus.port: expected a whole number <= 65535",
        ":5: telemetry.alerts[0]: AlertRule(over='5%'): give a time, like 0.4 or 400ms.",
        ":6: telemetry.alerts[1].at_leest: unknown key; did you mean at_least?",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("telemetry: {alerts: [{when: error_rate, over: 0.1, to: [webhook]}]}", "there is no webhook in this section"),
        ("telemetry: {alerts: [{when: error_rate, over: 0.1, to: [logg]}]}", r"there is no logg .*\(did you mean log"),
        ("telemetry: {webhook: '${HOOK}'}", "its value comes from the environment and is not shown"),
    ],
)
def test_a_place_must_be_there(tmp_path, monkeypatch, text, told):
    monkeypatch.setenv("HOOK", "ftp://secret")
    with pytest.raises(ConfigError, match=told) as error:
        load_spec(declared(tmp_path, text))
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("{when: context, over: 80%}", "80% of what? Set context.limit, or give tokens"),
        ("{when: tool_p95, tool: lookup}", "it is held against budget.tools, which is not set; set it, or give over"),
        ("{when: end_to_end_p95}", "it is held against budget.total, which is not set; set it, or give over"),
        ("{when: over_budget, over: 0.1, row: turn.model}", "it is about budget.turn.model, which is not set"),
        ("{when: over_budget, over: 0.1}", "it is about the budget, and there is none"),
    ],
)
def test_an_alert_that_can_never_be_told_is_named_with_its_line(tmp_path, rule, told):
    text = f"telemetry:\n  alerts:\n    - {{when: error_rate, over: 0.1}}\n    - {rule}\n"
    with pytest.raises(ConfigError) as error:
        load_spec(declared(tmp_path, text))
    assert str(error.value) == f"{tmp_path}/agent.yaml:5: telemetry.alerts[1]: {told}"
    meant = "context: {limit: 8000}\nbudget: {total: 3s, tools: 1s, turn: {model: 1s}}\n"
    assert load_spec(declared(tmp_path, text + meant)).telemetry.alerts[1].when in rule
