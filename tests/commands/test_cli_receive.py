"""`hotloop trace receive` as its user meets it: a process that agents of other frameworks send their traces to."""

from __future__ import annotations

import re
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import msgspec
import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from hotloop.commands import receive
from hotloop.trace.importing.otlp import spans_of
from hotloop.trace.store import TraceStore

HOTLOOP = (sys.executable, "-c", "import sys; from hotloop.cli import main; sys.exit(main())")
SAMPLES = Path(__file__).parent.parent / "data" / "otel"
ENOUGH = 20  # seconds, for anything on a busy machine


class Receiving:
    """A receiver in a process of its own; `url` is where it takes spans."""

    def __init__(self, store, *options):
        command = [*HOTLOOP, "trace", "receive", "--port", "0", "--store", str(store), *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()

    def send(self, name, change=bytes):
        for line in (SAMPLES / name).read_bytes().splitlines():
            request = urllib.request.Request(self.url, change(line), {"content-type": "application/json"})
            with urllib.request.urlopen(request, timeout=ENOUGH) as response:
                assert response.status == 200

    def end(self, how=signal.SIGINT):
        self.process.send_signal(how)
        _, told = self.process.communicate(timeout=ENOUGH)
        return self.process.returncode, told


@pytest.fixture
def receiving(tmp_path):
    started = []

    def start(*options):
        started.append(Receiving(tmp_path / "runs.db", *options))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
            each.process.communicate()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_what_is_complete_is_kept_when_it_is_stopped(receiving, tmp_path, how):
    receiver = receiving("--settle", "1h")
    receiver.send("pydantic_ai-parallel.jsonl")
    code, told = receiver.end(how)
    assert code == 0
    assert re.search(r"orders \(pydantic-ai\) · \d+ ms · 2 turns", told)
    assert told.splitlines()[-1] == "1 run kept, of 7 spans"
    (record,) = TraceStore(tmp_path / "runs.db").find()
    assert (record.source, len(record.turns)) == ("pydantic-ai", 2)
    assert record.prompt.text is None


def test_a_trace_is_kept_when_nothing_more_of_it_comes(receiving, tmp_path):
    receiver = receiving("--settle", "50ms", "--content")
    receiver.send("agno-parallel.jsonl")
    until = time.monotonic() + ENOUGH
    while "(agno)" not in receiver.process.stderr.readline():
        assert time.monotonic() < until
    (record,) = TraceStore(tmp_path / "runs.db").find()
    assert record.prompt.text == "Where is my order 20250101?"
    assert receiver.end()[0] == 0


def test_opentelemetrys_own_exporter_is_understood(receiving, tmp_path):
    receiver = receiving()
    exporter = OTLPSpanExporter(receiver.url, compression=Compression.Gzip)
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("pydantic-ai")
    with tracer.start_as_current_span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"}):
        tracer.start_span("chat", attributes={"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 9}).end()
    provider.shutdown()
    code, told = receiver.end()
    assert (code, told.splitlines()[-1]) == (0, "1 run kept, of 2 spans")
    (record,) = TraceStore(tmp_path / "runs.db").find()
    assert record.turns[0].usage.input_tokens == 9


def test_what_was_left_out_is_told(receiving):
    receiver = receiving()
    for name in ("openai_agents-single.jsonl", "strands-parallel.jsonl"):
        receiver.send(name)
    line = (
        (SAMPLES / "agno-parallel.jsonl")
        .read_text()
        .replace('"traceId":"', '"parentSpanId":"00f067aa0ba902b7","traceId":"')
    )
    request = urllib.request.Request(receiver.url, line.encode(), {"content-type": "application/json"})
    urllib.request.urlopen(request, timeout=ENOUGH).close()
    _, told = receiver.end()
    assert told.splitlines()[-1].startswith("2 runs kept, of ")
    assert told.splitlines()[-1].endswith(" spans · 1 trace not complete, left out")


def test_a_trace_that_cannot_be_kept_costs_itself_only(monkeypatch, tmp_path, capsys):
    store, spans = TraceStore(tmp_path / "runs.db"), spans_of((SAMPLES / "agno-parallel.jsonl").read_bytes())
    export = TraceStore.export

    def full_once(self, runs):
        monkeypatch.setattr(TraceStore, "export", export)
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(TraceStore, "export", full_once)
    broken = [msgspec.structs.replace(spans[0], name="\ud800")]
    kept = receive._Kept()
    receive._keep([("1" * 32, spans), ("2" * 32, broken), ("3" * 32, spans)], store, False, kept)
    store.close()
    assert (kept.runs, kept.lost) == (1, 2)
    told = capsys.readouterr().err.splitlines()
    assert told[0] == f"{'1' * 32}  not kept: OperationalError: database or disk is full"
    assert told[1].startswith(f"{'2' * 32}  not kept: '\\ud800' is no text that can be kept")
    assert len(told) == 3


def test_a_port_that_is_taken_is_a_sentence(receiving, hotloop, tmp_path):
    port = receiving().url.split(":")[2].split("/")[0]
    ended = hotloop("trace", "receive", "--port", port, "--store", tmp_path / "other.db")
    assert ended.code == 2
    assert f"Cannot receive on 127.0.0.1 port {port}: " in ended.err
