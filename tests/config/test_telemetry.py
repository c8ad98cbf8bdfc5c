"""Where runs are told, as a file declares it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotloop import Agent
from hotloop.config.spec import load_spec
from hotloop.errors import ConfigError
from hotloop.testing import SimulatedService
from hotloop.trace.recording.recorder import recorder
from otlp_collector import collecting, told

LEAST = "inference: {endpoint: 'http://localhost:1/v1', model: m1}\n"


def declared(folder: Path, text: str) -> Path:
    path = folder / "agent.yaml"
    path.write_text(text)
    return path


async def test_runs_of_a_declared_agent_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with collecting() as collector:
        async with SimulatedService(["Yes."]) as service:
            path = declared(
                tmp_path,
                f"inference: {{endpoint: '{service.url}', model: m1}}\n"
                "telemetry:\n"
                "  otel:\n"
                f"    endpoint: {collector.url}\n"
                "    headers: {x-team: orders}\n"
                "    resource: {service.name: shop}\n"
                "    timeout_ms: 500\n",
            )
            async with Agent.from_yaml(path) as agent:
                await agent.run("Is it?")
        assert recorder.flush(5)
        [exporter] = load_spec(path).telemetry.exporters()
        exporter.close()
    spans = {span.name: told(span) for span in collector.spans}
    assert spans["invoke_agent"]["hotloop.outcome"] == "ok"
    assert spans["chat m1"]["server.address"] == "127.0.0.1"
    assert collector.resource["service.name"] == "shop"
    assert collector.headers[0]["x-team"] == "orders"


def test_agents_that_declare_the_same_share_it(tmp_path: Path) -> None:
    same = load_spec(declared(tmp_path, LEAST + "telemetry: {otel: true}\n")).telemetry
    other = load_spec(declared(tmp_path, LEAST + "telemetry: {otel: {semconv: latest}}\n")).telemetry
    assert same.exporters() == same.exporters() != other.exporters()
    for exporter in same.exporters() + other.exporters():
        exporter.close()


@pytest.mark.parametrize("telemetry", ["", "telemetry: {}\n", "telemetry: {otel: false}\n"])
def test_by_itself_nothing_is_told(tmp_path: Path, telemetry: str) -> None:
    assert load_spec(declared(tmp_path, LEAST + telemetry)).telemetry.exporters() == []


def test_each_mistake_is_named(tmp_path: Path) -> None:
    text = LEAST + "telemetry:\n  otel:\n    endpoint: 7\n    semconv: newest\n    port: 3\n"
    with pytest.raises(ConfigError) as error:
        load_spec(declared(tmp_path, text))
    assert [line.split("agent.yaml")[1] for line in str(error.value).splitlines()] == [
        ":4: telemetry.otel.endpoint: expected text, got a whole number; put it in quotes",
        ':5: telemetry.otel.semconv: expected "released" or "latest"',
        ":6: telemetry.otel.port: unknown key; there are endpoint, headers, resource, timeout, semconv, content",
    ]
