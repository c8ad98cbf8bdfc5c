"""Runs as OpenTelemetry spans: what a collector is sent, where in a trace it is, and what troubles cost."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NoOpTracerProvider

from hotloop import Agent, ApprovalRequired, MCPServer, Model, OTelExporter, tool
from hotloop.errors import ConfigError
from hotloop.runs import Result
from hotloop.testing import ScriptedModel, call, raw, run_virtual, say
from hotloop.tools.running.tracecontext import trace_headers
from hotloop.trace.otel.spans import spans_of
from hotloop.trace.recording.recorder import recorder
from hotloop.units import NS_PER_MS
from made_runs import run_of
from otlp_collector import Collected, collecting, told

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
BUSY = raw(b'{"error":{"message":"busy"}}', status=503)


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_TRACES_SAMPLER", "OTEL_METRICS_EXPORTER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("HOTLOOP_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def collector() -> Iterator[Collected]:
    with collecting() as collected:
        yield collected


@tool(read_only=True)
async def status(order: str) -> str:
    """The status of an order."""
    await asyncio.sleep(0.15)
    return f"{order} is shipped"


@tool
async def headers() -> dict[str, str]:
    """What another service would be sent."""
    return trace_headers()


def model(*replies: Any) -> ScriptedModel:
    return ScriptedModel(replies, ttft=0.1, tpot=0.01)


def run(
    exporter: OTelExporter, replies: ScriptedModel, tools: Any = (status,), options: Any = None, **agent: Any
) -> Result:
    """One run on a virtual clock, told and sent."""
    made: dict[str, Any] = {"model": "m1", "endpoint": replies, "tools": tools, "name": "orders", **agent}
    try:
        return run_virtual(Agent(exporters=[exporter], **made).run("Where is it?", **(options or {})))
    finally:
        assert recorder.flush(5)
        exporter.close()


def below(spans: list[Any], span: Any) -> list[str]:
    return [each.name for each in spans if each.parent_span_id == span.span_id]


def ms_of(span: Any, since: Any) -> tuple[int, int]:
    times = span.start_time_unix_nano, span.end_time_unix_nano
    start, end = (round((time - since.start_time_unix_nano) / NS_PER_MS) for time in times)
    return start, end


def test_a_run_is_a_span_and_all_in_it_is_below(collector: Collected) -> None:
    exporter = OTelExporter(endpoint=collector.url)
    result = run(exporter, model(BUSY, call("status", order="1"), "It is shipped."), version="7", retries=1)

    spans = collector.spans
    names = ["chat m1", "hotloop.queue", "chat m1", "execute_tool status", "chat m1"]
    assert [span.name for span in spans] == ["invoke_agent orders", *names]
    root, first, queue, second, called, last = spans
    assert below(spans, root) == names
    assert ms_of(root, root) == (0, round(result.trace.end_to_end_ms))
    retried = ms_of(second, root)[0]
    assert ms_of(queue, root) == (100, retried)
    assert ms_of(called, root) == (retried + 140, retried + 290)

    assert told(root) | {"hotloop.run.id": ""} == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "orders",
        "gen_ai.agent.version": "7",
        "openinference.span.kind": "AGENT",
        "hotloop.run.id": "",
        "hotloop.outcome": "ok",
    }
    assert told(first)["error.type"] == "Overloaded"
    assert (first.status.code, first.status.message) == (2, "The service answered 503…")  # its own words are left out
    assert told(last) | {"langfuse.observation.completion_start_time": ""} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai_compatible",
        "gen_ai.request.model": "m1",
        "gen_ai.response.model": "simulated",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.response.time_to_first_chunk": 0.1,
        "gen_ai.usage.input_tokens": result.trace.turns[1].usage.input_tokens,
        "gen_ai.usage.output_tokens": 3,
        "openinference.span.kind": "LLM",
        "langfuse.observation.completion_start_time": "",
        "hotloop.time_per_output_token": 0.01,
        "hotloop.outcome": "ok",
        "hotloop.attempt.why": "first",
        "hotloop.turn": 1,
    }
    assert told(called) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "status",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": result.trace.turns[0].calls[0].call_id,
        "openinference.span.kind": "TOOL",
        "hotloop.outcome": "ok",
        "hotloop.turn": 0,
    }


def test_tokens_are_on_requests_and_add_up_to_the_report(collector: Collected) -> None:
    fallback = Model(name="m2", endpoint=model("A good answer."))
    exporter = OTelExporter(endpoint=collector.url)
    usage = {"prompt_tokens": 90, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 64}}
    replies = model(call("status", order="1"), say("nonsense", usage=usage))
    refuse = lambda reply: "nonsense" if "nonsense" in reply.text else ""  # noqa: E731
    result = run(exporter, replies, fallback=[fallback], reject=[refuse])

    counted = [(span.name, told(span)) for span in collector.spans if "gen_ai.usage.input_tokens" in told(span)]
    assert [name for name, _ in counted] == ["chat m1", "chat m1", "chat m2"]
    assert [of["hotloop.outcome"] for _, of in counted] == ["ok", "rejected", "ok"]
    assert sum(of["gen_ai.usage.input_tokens"] for _, of in counted) == result.usage.input_tokens
    assert sum(of["gen_ai.usage.output_tokens"] for _, of in counted) == result.usage.output_tokens
    assert counted[1][1]["gen_ai.usage.cache_read.input_tokens"] == 64


def test_what_a_tool_does_elsewhere_is_below_its_span(collector: Collected) -> None:
    told_to: list[dict[str, str]] = []

    @tool
    async def elsewhere() -> str:
        told_to.append(trace_headers())
        return "done"

    run(OTelExporter(endpoint=collector.url), model(call("elsewhere"), "Done."), [elsewhere])

    span = next(span for span in collector.spans if span.name == "execute_tool elsewhere")
    assert told_to == [{"traceparent": f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01"}]


async def test_an_mcp_server_is_told_the_span_of_the_call(collector: Collected, tmp_path: Path) -> None:
    shop = Path(__file__).parent.parent / "mcp_servers" / "shop.py"
    server = MCPServer([sys.executable, str(shop)], name="shop")
    replies = model(call("shop_told"), "Done.")
    exporter = OTelExporter(endpoint=collector.url)
    async with Agent(model="m1", endpoint=replies, tools=[server], exporters=[exporter]) as agent:
        await agent.run("Go.")
    recorder.flush(5)
    exporter.close()
    span = next(span for span in collector.spans if span.name == "execute_tool shop_told")
    told_to = json.loads(replies.requests[1]["messages"][-1]["content"])["traceparent"]
    assert told_to == f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01"


@pytest.mark.parametrize("flags", ["01", "00"])
def test_a_run_is_below_whoever_asked(collector: Collected, flags: str) -> None:
    told_to: list[dict[str, str]] = []

    @tool
    async def elsewhere() -> str:
        told_to.append(trace_headers())
        return "done"

    asked = {"traceparent": f"00-{TRACE}-{SPAN}-{flags}", "tracestate": "vendor=1"}
    exporter = OTelExporter(endpoint=collector.url)
    result = run(exporter, model(call("elsewhere"), "Done."), [elsewhere], asked)

    assert {name: result.trace.facts[name] for name in asked} == asked
    assert told_to[0]["tracestate"] == "vendor=1"
    assert re.fullmatch(f"00-{TRACE}-(?!{SPAN})[0-9a-f]{{16}}-{flags}", told_to[0]["traceparent"])
    if flags == "00":
        assert not collector.traces
        return
    spans = collector.spans
    assert {span.trace_id.hex() for span in spans} == {TRACE}
    assert (spans[0].parent_span_id.hex(), spans[0].trace_state) == (SPAN, "vendor=1")


def test_without_an_exporter_what_a_tool_does_elsewhere_is_below_whoever_asked() -> None:
    asked = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=1"}
    replies = model(call("headers"), "Done.")
    agent = Agent(model="m1", endpoint=replies, tools=[headers])
    run_virtual(agent.run("Go.", **asked))  # type: ignore[arg-type]
    assert json.loads(replies.requests[1]["messages"][-1]["content"]) == asked


def test_runs_that_are_not_sampled_are_not_sent_and_say_so(
    collector: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    replies = model(call("headers"), "Done.")
    run(OTelExporter(endpoint=collector.url), replies, [headers])
    assert json.loads(replies.requests[1]["messages"][-1]["content"])["traceparent"].endswith("-00")
    assert not collector.traces
    assert "gen_ai.invoke_agent.duration" in collector.metrics


def test_a_programs_own_spans_are_above_and_below() -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    own = provider.get_tracer("the program")

    @tool
    async def looks() -> str:
        with own.start_as_current_span("look"):
            return "seen"

    @tool
    def looks_too() -> str:
        with own.start_as_current_span("look in a thread"):
            return "seen"

    async def main() -> None:
        exporter = OTelExporter(tracer_provider=provider)
        agent = Agent(
            model="m1",
            endpoint=model([call("looks"), call("looks_too")], "Done."),
            tools=[looks, looks_too],
            exporters=[exporter],
        )
        with own.start_as_current_span("request"):
            await agent.run("Go.")
        await asyncio.to_thread(recorder.flush, 5)
        exporter.close()

    asyncio.run(main())
    spans = {span.name: span for span in kept.get_finished_spans()}
    above = {name: span.parent and span.parent.span_id for name, span in spans.items()}
    own_id = {name: span.context.span_id for name, span in spans.items()}
    assert above["invoke_agent"] == own_id["request"]
    assert above["look"] == own_id["execute_tool looks"]
    assert above["look in a thread"] == own_id["execute_tool looks_too"]
    assert len({span.context.trace_id for span in spans.values()}) == 1


def test_a_run_in_a_tool_is_below_the_call() -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    exporter = OTelExporter(tracer_provider=provider)
    inner = Agent(model="m2", endpoint=model("An expert's answer."), name="expert", exporters=[exporter])

    @tool
    async def ask_expert() -> str:
        return str((await inner.run("What do you say?")).output)

    run(exporter, model(call("ask_expert"), "Done."), [ask_expert])
    spans = {span.name: span for span in kept.get_finished_spans()}
    parent = spans["invoke_agent expert"].parent
    assert parent is not None and parent.span_id == spans["execute_tool ask_expert"].context.span_id


def test_what_is_sent_says_whose_it_is(collector: Collected, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=orders")
    run(OTelExporter(resource={"deployment.environment.name": "test"}), model("Yes."), headers={})
    assert (collector.resource["service.name"], collector.resource["deployment.environment.name"]) == (
        "hotloop",
        "test",
    )
    assert {sent["x-team"] for sent in collector.headers} == {"orders"}

    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
    run(OTelExporter(headers={"x-team": "mine"}), model("Yes."))
    assert collector.resource["service.name"] == "shop"
    assert collector.headers[-1]["x-team"] == "mine"


def test_a_session_is_told(collector: Collected) -> None:
    exporter = OTelExporter(endpoint=collector.url)
    agent = Agent(model="m1", endpoint=model("Yes."), exporters=[exporter], sessions=":memory:")
    run_virtual(agent.session("user-42").run("Is it?"))
    recorder.flush(5)
    exporter.close()
    for span in collector.spans:
        assert told(span)["session.id"] == told(span)["gen_ai.conversation.id"] == "user-42"


def test_a_run_that_fails_says_with_what(collector: Collected) -> None:
    with pytest.raises(Exception, match="503"):
        run(OTelExporter(endpoint=collector.url), model(BUSY), retries=0)
    root = collector.spans[0]
    assert (told(root)["hotloop.outcome"], told(root)["error.type"], root.status.code) == ("failed", "Overloaded", 2)


def test_a_run_that_was_resumed_has_two_spans_and_each_call_one(collector: Collected) -> None:
    @tool(approval="always")
    async def cancel(order: str) -> str:
        return "cancelled"

    async def main() -> None:
        exporter = OTelExporter(endpoint=collector.url)
        replies = model([call("status", order="1"), call("cancel", order="1")], "Done.")
        agent = Agent(model="m1", endpoint=replies, tools=[status, cancel], exporters=[exporter])
        with pytest.raises(ApprovalRequired) as paused:
            await agent.run("Cancel it.", trace_id="run-1", traceparent=f"00-{TRACE}-{SPAN}-01")
        [asked] = paused.value.calls
        await asyncio.to_thread(agent.approvals.decide, "run-1", asked.call_id, asked.digest, True)
        await agent.resume("run-1")
        await asyncio.to_thread(recorder.flush, 5)
        exporter.close()

    asyncio.run(main())
    spans = collector.spans
    assert len({span.span_id for span in spans}) == len(spans)
    assert [told(span)["hotloop.outcome"] for span in spans if span.name == "invoke_agent"] == ["paused", "ok"]
    assert sorted(span.name for span in spans if "tool" in span.name) == ["execute_tool cancel", "execute_tool status"]
    assert {span.trace_id.hex() for span in spans} == {TRACE}


def test_a_collector_that_is_not_there_is_one_warning(
    collector: Collected, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    exporter = OTelExporter(endpoint="http://127.0.0.1:9", timeout=0.05)
    agent = Agent(model="m1", endpoint=ScriptedModel(lambda _: "Yes."), exporters=[exporter])
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert asyncio.run(agent.run("Is it?")).output == "Yes."
            recorder.flush(5)
            assert exporter.flush()
    [warning] = caplog.records
    assert "http://127.0.0.1:9/v1/traces (timeout, max retries or shutdown)" in warning.getMessage()
    exporter.close()


def test_one_that_takes_no_metrics_is_one_warning(collector: Collected, caplog: pytest.LogCaptureFixture) -> None:
    collector.refused.add("/v1/metrics")
    with caplog.at_level(logging.WARNING):
        run(OTelExporter(endpoint=collector.url + "/v1/traces"), model("Yes."))
    [warning] = caplog.records
    assert "No metrics reach" in warning.getMessage() and "405" in warning.getMessage()
    assert [span.name for span in collector.spans] == ["invoke_agent orders", "chat m1"]


def test_one_that_comes_back_is_told_and_sent_to(collector: Collected, caplog: pytest.LogCaptureFixture) -> None:
    exporter = OTelExporter(endpoint=collector.url)
    agent = Agent(model="m1", endpoint=ScriptedModel(lambda _: "Yes."), exporters=[exporter])
    collector.refused.add("/v1/traces")
    with caplog.at_level(logging.INFO, "hotloop.trace"):
        for told_now in ("No spans reach", "takes spans again"):
            asyncio.run(agent.run("Is it?"))
            recorder.flush(5)
            exporter.flush()
            assert told_now in caplog.text
            collector.refused.clear()
    assert len(collector.spans) == 2
    exporter.close()


def test_spans_that_find_too_many_waiting_are_counted_and_told_of_once(
    collector: Collected, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MAX_QUEUE_SIZE", "MAX_EXPORT_BATCH_SIZE"):
        monkeypatch.setenv(f"OTEL_BSP_{name}", "8")
    exporter = OTelExporter(endpoint=collector.url)
    collector.awake.clear()
    with caplog.at_level(logging.WARNING):
        exporter.export([run_of() for _ in range(10)])
        collector.awake.set()
        exporter.flush()
        exporter.export([run_of()])
        exporter.close()
    sent, ended = len(collector.spans), 11 * len(spans_of(run_of()))
    assert 8 < sent < ended
    first, last = [record.getMessage() for record in caplog.records]
    assert first.startswith("Spans are lost") and "8 wait already" in first
    assert last == f"{ended - sent} spans were lost, for too many waited."


def test_what_a_programs_own_provider_drops_is_not_kept_back(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(InMemorySpanExporter):
        def export(self, spans: Any) -> Any:
            awake.wait(10)
            return super().export(spans)

    awake = threading.Event()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(Slow(), 8, max_export_batch_size=8))
    OTelExporter(tracer_provider=provider).export([run_of() for _ in range(10)])
    awake.set()
    provider.shutdown()
    assert "Queue full" in caplog.text


def test_what_waits_is_sent_when_the_process_ends(collector: Collected) -> None:
    program = f"""
from hotloop import Agent, OTelExporter
from hotloop.testing import ScriptedModel

exporter = OTelExporter(endpoint={collector.url!r})
Agent(model="m1", endpoint=ScriptedModel(["Yes."]), exporters=[exporter]).run_sync("Is it?")
"""
    ended = subprocess.run([sys.executable, "-X", "dev", "-W", "error", "-c", program], capture_output=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert {"invoke_agent", "chat m1"} <= {span.name for span in collector.spans}  # more of them on a busy machine
    assert "gen_ai.invoke_agent.duration" in collector.metrics


@pytest.mark.parametrize("known", [True, False])
def test_a_collector_that_cannot_be_reached_is_not_waited_for_at_the_end(
    known: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = OTelExporter(endpoint="http://me:pass@127.0.0.1:9", timeout=0.05 if known else 30)
    exporter.export([run_of()])
    if known:
        exporter.flush()
        exporter.export([run_of()])
    began = time.monotonic()
    exporter.close()
    assert time.monotonic() - began < 0.9  # the SDK waits for about 1 s before it tries again
    [warning] = [record.getMessage() for record in caplog.records]
    assert "at http://***@127.0.0.1:9/v1/" in warning and "pass" not in warning


def test_it_is_opened_again_when_it_is_used_again(collector: Collected) -> None:
    exporter = OTelExporter(endpoint=collector.url)
    for answers in (1, 2):
        run(exporter, model("Yes."))
        assert sum(span.name == "chat m1" for span in collector.spans) == answers


class NotTheSdk:
    def get_tracer(self, *_: object) -> str:
        return "no tracer"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endpoint": ""}, r"OTelExporter\(endpoint=...\)"),
        *(
            ({"endpoint": url}, "write it like http://localhost:4318")
            for url in ("localhost:4318", "ftp://x", "http://", "5")
        ),
        ({"endpoint": "ftp://me:pass@x"}, r"'ftp://\*\*\*@x' is no URL"),
        ({"endpoint": "http://x?key=1"}, "as one of the headers"),
        ({"semconv": "newest"}, r"OTelExporter\(semconv=...\)"),
        ({"headers": {"a": 1}}, r"OTelExporter\(headers\[...\]=...\)"),
        ({"timeout": 0}, r"OTelExporter\(timeout=...\)"),
        (
            {"tracer_provider": TracerProvider(shutdown_on_exit=False), "endpoint": "http://x"},
            "own providers have that",
        ),
        ({"tracer_provider": NotTheSdk()}, "it gives a str, whose spans cannot be given ids"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        OTelExporter(**options)


def test_opentelemetry_switched_off_is_no_error() -> None:
    run(OTelExporter(tracer_provider=NoOpTracerProvider()), model("Yes."))


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "hotloop.trace.otel.pipe", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ConfigError, match=r'pip install "hotloop\[otel\]"'):
        OTelExporter()
