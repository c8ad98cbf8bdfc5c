"""What the spans and metrics of a record are, whatever came of it: those that no simple run has."""

from __future__ import annotations

import json
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from hotloop.trace.ledger import AttemptFacts, CallFacts, Stage, TurnFacts, Usage
from hotloop.trace.otel.exporter import OTelExporter
from hotloop.trace.otel.names import Semconv
from hotloop.trace.otel.spans import Span, spans_of
from hotloop.trace.record import Said, TraceRecord
from hotloop.units import NS_PER_MS, NS_PER_S


def at(milliseconds: float) -> int:
    """A time of the run's clock, which began at 5 s."""
    return round(milliseconds * NS_PER_MS) + 5 * NS_PER_S


def request(start: float, end: float, outcome: str = "ok", **more: Any) -> AttemptFacts:
    given = {"turn": 0, "service": "gpu-1:8000", "model": "m1", "why": "first"} | more
    return AttemptFacts(start=at(start), end=at(end), outcome=outcome, **given)


def stage(kind: Any, start: float, end: float, lane: int = 0, name: str = "", note: str = "", turn: int = 0) -> Stage:
    return Stage(kind, at(start), at(end), turn, lane, name, note)


def record(**more: Any) -> TraceRecord:
    given: dict[str, Any] = {"trace_id": "run-1", "name": "orders", "started": 1_700_000_000.25, "version": "2"}
    return TraceRecord(start=at(0), end=at(1000), **given | more)


def spans(**more: Any) -> list[Span]:
    return spans_of(record(**more))[1:]


def test_times_are_those_of_the_ledger_to_the_nanosecond() -> None:
    [span] = spans(attempts=[AttemptFacts(0, "s", "m", "first", at(0) + 1, at(0) + 3, "ok")])
    began = 1_700_000_000_250_000_000
    assert (span.start, span.end) == (began + 1, began + 3)


@pytest.mark.parametrize(
    ("service", "told"),
    [
        ("api.groq.com", {"gen_ai.provider.name": "groq", "server.address": "api.groq.com"}),
        ("us-east5-aiplatform.googleapis.com", {"gen_ai.provider.name": "openai_compatible"}),
        ("my.openai.azure.com", {"gen_ai.provider.name": "azure.ai.openai"}),
        ("notgroq.com", {"gen_ai.provider.name": "openai_compatible"}),
        ("gpu-1:8000", {"server.address": "gpu-1", "server.port": 8000, "gen_ai.provider.name": "openai_compatible"}),
        ("[::1]:8000", {"server.address": "[::1]", "server.port": 8000}),
        ("/run/vllm.sock", {"server.address": "/run/vllm.sock"}),
        ("local", {"gen_ai.provider.name": "llama.cpp"}),
        ("ScriptedModel", {"gen_ai.provider.name": "openai_compatible"}),
    ],
)
def test_a_request_says_of_whom_it_was_asked(service: str, told: dict[str, Any]) -> None:
    [span] = spans(attempts=[request(0, 10, service=service)])
    assert told.items() <= span.attributes.items()
    assert span.client == (service not in ("local", "ScriptedModel")) == ("server.address" in span.attributes)


@pytest.mark.parametrize(
    ("outcome", "error", "kind", "failed"),
    [
        ("ok", "", None, False),
        ("failed", "RateLimited", "RateLimited", True),
        ("failed", "", "failed", True),
        ("rejected", "", "rejected", True),
        ("lost", "", "lost", False),
        ("cancelled", "", "cancelled", False),
    ],
)
def test_what_was_stopped_did_not_fail(outcome: str, error: str, kind: str | None, failed: bool) -> None:
    [span] = spans(attempts=[request(0, 10, outcome, error=error, reason="It is busy.")])
    assert span.attributes.get("error.type") == kind
    assert span.error == ("It is busy." if failed else None)


def test_usage_is_that_of_each_request_whose_service_told_it() -> None:
    used = Usage(100, 10, 64, 4)
    attempts = [
        request(0, 10, "failed"),
        request(5, 10, "failed", usage=used),
        request(10, 20, "rejected", usage=used),
        request(20, 30, usage=used),
        request(30, 40, why="summary", usage=Usage(7, 1)),
    ]
    tokens = [span.attributes.get("gen_ai.usage.input_tokens") for span in spans(attempts=attempts)]
    assert tokens == [None, 100, 100, 100, 7]
    assert spans(attempts=attempts)[1].attributes["gen_ai.usage.reasoning.output_tokens"] == 4


def test_only_the_request_that_gave_the_reply_has_its_facts() -> None:
    reply = TurnFacts(0, finish_reason="stop", model="m1-0613", tpot=20 * NS_PER_MS)
    attempts = [
        request(0, 300, "lost"),
        request(200, 400, why="hedge", first=at(250)),
        request(400, 450, why="prefill"),
    ]
    lost, gave, read_ahead = (span.attributes for span in spans(attempts=attempts, turns=[reply]))
    assert gave["gen_ai.response.model"] == "m1-0613" and gave["gen_ai.response.finish_reasons"] == ["stop"]
    assert gave["gen_ai.response.time_to_first_chunk"] == 0.05
    assert gave["langfuse.observation.completion_start_time"] == '"2023-11-14T22:13:20.500000+00:00"'
    assert not {"gen_ai.response.model", "gen_ai.response.time_to_first_chunk"} & (lost.keys() | read_ahead.keys())


def test_calls_are_told_from_those_that_came_to_nothing() -> None:
    stages = [
        stage("tool", 10, 20, 1, "look"),  # of a reply that was cut
        stage("tool", 30, 40, 2, "look", "discarded"),
        stage("guard", 100, 103, 3, "look"),
        stage("tool", 103, 140, 3, "look"),
        stage("context", 140, 150, 3, "look", "cut"),
        stage("wait", 100, 140, 4, "pay", "for look"),
        stage("tool", 140, 180, 4, "pay", "failed"),
        stage("wait", 100, 180, 5, "post", "for pay"),  # a person must decide
        stage("cache", 180, 180, 6, "look", "cached"),
        stage("wait", 100, 180, 7, "look", "joined"),
        stage("guard", 100, 100, 8, "rm", "refused"),
    ]
    outcomes = {"a": "ok", "b": "error", "c": "pending", "d": "cached", "e": "joined", "f": "refused"}
    tools = ["look", "pay", "post", "look", "look", "rm"]
    named = zip(outcomes.items(), tools, strict=True)
    calls = [CallFacts(key, name, outcome, lane=lane) for lane, ((key, outcome), name) in enumerate(named, 3)]
    found = spans(stages=stages, turns=[TurnFacts(0, calls=calls)])

    told = {
        span.attributes.get("gen_ai.tool.call.id"): (span.attributes["hotloop.outcome"], span.error)
        for span in found
        if span.name.startswith("execute_tool")
    }
    assert told == {
        None: ("discarded", None),
        "a": ("ok", None),
        "b": ("error", "tool_error"),
        "d": ("cached", None),
        "e": ("joined", None),
        "f": ("refused", "refused"),
    }
    assert sum(span.name == "execute_tool look" for span in found) == 5
    others = [span.name for span in found if span.name.startswith("hotloop.")]
    assert others == ["hotloop.guard look", "hotloop.context look", "hotloop.wait pay", "hotloop.wait post"]
    assert len({span.span_id for span in found}) == len(found)


def test_a_call_that_was_begun_ahead_is_a_span_beside_the_one_that_took_its_result() -> None:
    begun = {"tool": "look", "turn": 0, "start_ms": 20.0, "ms": 60.0, "context": "", "pattern": "p", "used": True}
    vain = begun | {"start_ms": 30.0, "ms": 10.0, "used": False, "failed": True}
    stages = [stage("wait", 50, 80, 1, "look", "prefetched"), stage("tool", 20, 80, 1, "look", "prefetched")]
    turns = [TurnFacts(0, calls=[CallFacts("a", "look", "prefetched", lane=1)])]
    found = spans(stages=stages, turns=turns, facts={"prefetch": {"calls": [begun, vain]}})
    told = [
        (
            span.attributes["hotloop.outcome"],
            span.attributes.get("hotloop.tool.used"),
            span.end - span.start,
            span.error,
        )
        for span in found
    ]
    assert told == [
        ("prefetched", None, 30 * NS_PER_MS, None),
        ("begun ahead", True, 60 * NS_PER_MS, None),
        ("begun ahead", False, 10 * NS_PER_MS, "tool_error"),
    ]


def test_stages_that_a_person_would_ask_about_are_spans() -> None:
    stages = [
        stage("memory", 0, 30, note="3 facts"),
        stage("context", 30, 80, note="summarized"),
        stage("context", 80, 120),
        stage("queue", 120, 180, note="a place at the service"),
        stage("connect", 180, 180.5, note="kept"),
        stage("prefill", 181, 300),
        stage("decode", 300, 400),
        stage("approval", 400, 410, note="saved"),
    ]
    found = [(span.name, span.attributes["hotloop.note"]) for span in spans(stages=stages)]
    assert found == [
        ("hotloop.memory", "3 facts"),
        ("hotloop.context", "summarized"),
        ("hotloop.queue", "a place at the service"),
        ("hotloop.approval", "saved"),
    ]


def said() -> TraceRecord:
    return record(
        prompt=Said(text="Where is it?"),
        answer=Said(text="It is shipped."),
        said={"a": Said(text='{"order":"1"}', result="shipped"), "b": Said(text="no JSON", result="wrong")},
        attempts=[request(0, 100), request(200, 300, turn=1)],
        stages=[stage("tool", 100, 150, 1, "look"), stage("guard", 100, 150, 2, "look", "error")],
        turns=[
            TurnFacts(
                0,
                finish_reason="tool_calls",
                calls=[CallFacts("a", "look", "ok", lane=1), CallFacts("b", "look", "error", lane=2)],
            ),
            TurnFacts(1, finish_reason="stop"),
        ],
    )


def test_what_was_said_is_told_only_if_asked_for() -> None:
    for span in spans_of(said()):
        assert not {"gen_ai.input.messages", "input.value", "gen_ai.tool.call.arguments"} & span.attributes.keys()


def test_what_was_said_is_told_as_messages() -> None:
    root, first, last, call, _ = (span.attributes for span in spans_of(said(), content=True))
    user = {"role": "user", "parts": [{"type": "text", "content": "Where is it?"}]}
    calls = {
        "role": "assistant",
        "parts": [
            {"type": "tool_call", "id": "a", "name": "look", "arguments": {"order": "1"}},
            {"type": "tool_call", "id": "b", "name": "look", "arguments": "no JSON"},
        ],
    }
    results = {
        "role": "tool",
        "parts": [
            {"type": "tool_call_response", "id": "a", "response": "shipped"},
            {"type": "tool_call_response", "id": "b", "response": "wrong"},
        ],
    }
    answer = {"role": "assistant", "parts": [{"type": "text", "content": "It is shipped."}]}
    assert json.loads(first["gen_ai.input.messages"]) == [user]
    assert json.loads(first["gen_ai.output.messages"]) == [calls | {"finish_reason": "tool_calls"}]
    assert json.loads(last["gen_ai.input.messages"]) == [user, calls, results]
    assert json.loads(last["gen_ai.output.messages"]) == [answer | {"finish_reason": "stop"}]
    assert (call["gen_ai.tool.call.arguments"], call["gen_ai.tool.call.result"]) == ('{"order":"1"}', "shipped")
    assert (root["input.value"], root["output.value"]) == ("Where is it?", "It is shipped.")


def test_a_record_without_words_has_none_to_tell() -> None:
    root, chat = spans_of(record(attempts=[request(0, 10)], turns=[TurnFacts(0)]), content=True)
    assert (
        not {"gen_ai.input.messages", "gen_ai.output.messages", "input.value"}
        & (root.attributes | chat.attributes).keys()
    )


@pytest.mark.parametrize(
    ("variable", "captured"),
    [
        ("true", True),
        ("SPAN_ONLY", True),
        ("span_and_event", True),
        ("event_only", False),
        ("false", False),
        ("", False),
    ],
)
def test_the_standard_variable_asks_for_what_was_said(
    variable: str, captured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", variable)
    provider = MeterProvider(shutdown_on_exit=False)
    assert OTelExporter(meter_provider=provider).content is captured
    assert OTelExporter(meter_provider=provider, content=not captured).content is not captured


def measured(semconv: Semconv, *records: TraceRecord) -> dict[str, list[Any]]:
    reader = InMemoryMetricReader()
    exporter = OTelExporter(meter_provider=MeterProvider([reader], shutdown_on_exit=False), semconv=semconv)
    exporter.export(records)
    data = reader.get_metrics_data()
    assert data is not None
    metrics = data.resource_metrics[0].scope_metrics[0].metrics
    return {metric.name: list(metric.data.data_points) for metric in metrics}


MEASURED = record(
    attempts=[
        request(0, 50, "failed", error="RateLimited"),
        request(100, 400, why="retry", first=at(150), usage=Usage(100, 11, 64, 2)),
    ],
    turns=[TurnFacts(0, tpot=25 * NS_PER_MS, model="m1-0613", calls=[CallFacts("a", "look", "error", lane=1)])],
    stages=[
        stage("prefill", 0, 400),
        stage("tool", 400, 700, 1, "look", "failed"),
        stage("overhead", 700, 700.25),
        stage("context", 700.25, 999.75, note="session committed"),
        stage("overhead", 999.75, 1000),
    ],
)
OF_ALL = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai_compatible", "gen_ai.request.model": "m1"}
WHERE = {"server.address": "gpu-1", "server.port": 8000}


def test_requests_calls_and_runs_are_measured() -> None:
    found = measured("released", MEASURED)
    failed, good = sorted(found["gen_ai.client.operation.duration"], key=lambda point: point.sum)
    assert (failed.sum, dict(failed.attributes)) == (0.05, OF_ALL | WHERE | {"error.type": "RateLimited"})
    assert (good.sum, dict(good.attributes)) == (0.3, OF_ALL | WHERE | {"gen_ai.response.model": "m1-0613"})
    assert good.explicit_bounds == tuple(0.01 * 2**power for power in range(14))
    assert [point.sum for point in found["gen_ai.client.operation.time_to_first_chunk"]] == [0.05]
    assert [point.sum for point in found["gen_ai.client.operation.time_per_output_chunk"]] == [0.025]
    tokens = {point.attributes["gen_ai.token.type"]: point for point in found["gen_ai.client.token.usage"]}
    assert {kind: point.sum for kind, point in tokens.items()} == {"input": 100, "output": 11}
    assert tokens["input"].explicit_bounds == tuple(4.0**power for power in range(14))
    [tool] = found["gen_ai.execute_tool.duration"]
    whose = {"gen_ai.tool.name": "look", "gen_ai.tool.type": "function", "gen_ai.agent.name": "orders"}
    assert (tool.sum, dict(tool.attributes)) == (0.3, whose | {"error.type": "tool_error"})
    [agent] = found["gen_ai.invoke_agent.duration"]
    assert (agent.sum, dict(agent.attributes), agent.explicit_bounds[-1]) == (
        1.0,
        {"gen_ai.agent.name": "orders"},
        409.6,
    )


def test_the_loops_own_work_is_measured_in_microseconds() -> None:
    [overhead] = measured("released", MEASURED)["hotloop.overhead.duration"]
    assert overhead.sum == pytest.approx(0.0005)
    assert overhead.explicit_bounds[:3] == (0.00001, 0.00002, 0.00004)


def test_the_latest_names_are_other_ones() -> None:
    found = measured("latest", MEASURED, MEASURED)
    prefix = "gen_ai.client.inference"
    sums = {name.removeprefix(prefix): points[0] for name, points in found.items() if ".usage." in name}
    assert {name: point.value for name, point in sums.items()} == {
        ".usage.input_tokens": 200,
        ".usage.output_tokens": 22,
        ".usage.cache_read.input_tokens": 128,
        ".usage.reasoning.output_tokens": 4,
    }
    assert sums[".usage.input_tokens"].attributes["gen_ai.token.modality"] == "text"
    assert found[f"{prefix}.operation.input_tokens"][0].count == 2
    assert {f"{prefix}.duration", f"{prefix}.time_to_first_chunk", f"{prefix}.time_per_output_chunk"} <= found.keys()
    assert not any(name.startswith("gen_ai.client.operation") or "token.usage" in name for name in found)
