"""Whether a backend of OpenTelemetry says of an agent's runs what their own report says: Phoenix, on loopback.

    python benchmarks/otelbackend.py             makes benchmarks/venvs/backends/phoenix at first, about 800 MB
    python benchmarks/otelbackend.py --runs 60

An agent answers on a simulated GPU service that caches prefixes and refuses a fifth of the requests, so that there are
retries and cached tokens. Its runs go to a Phoenix of their own, which is then asked for every span and for the totals
that it works out; each figure is compared with what `result.trace` says. Exit code 0: all agree. 1: some do not. 2: no
figures, and why.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import environments
from figures import columns

from hotloop import Agent, OTelExporter, Result, ToolError, tool
from hotloop.errors import ModelError
from hotloop.testing import SimulatedService, call, say
from hotloop.trace.recording.recorder import recorder

NAME = "backends/phoenix"
PROJECT = "hotloop-benchmark"
PATIENCE = 120.0  # seconds until Phoenix answers
SETTLING = 30.0  # seconds until it has worked in what it was sent
CLOSE_MS = 0.01
EPOCH = datetime.fromtimestamp(0, UTC)
TOTALS = """query ($name: String!) { getProjectByName(name: $name) {
    traceCount recordCount tokenCountPrompt tokenCountCompletion tokenCountTotal } }"""
KINDS = {"invoke_agent": "AGENT", "chat": "LLM", "execute_tool": "TOOL"}


@tool(read_only=True)
async def query_order_status(order_id: str) -> dict[str, Any]:
    """Query the status of an order."""
    await asyncio.sleep(0.02)
    return {"order_id": order_id, "status": "shipped", "items": 3}


@tool(read_only=True)
async def query_logistics(order_id: str) -> dict[str, Any]:
    """Query where the parcel of an order is."""
    await asyncio.sleep(0.03)
    return {"order_id": order_id, "carrier": "SF", "location": "regional hub"}


@tool
async def refund(order_id: str) -> str:
    """Refund an order."""
    raise ToolError("It is on its way.")


class Line(NamedTuple):
    """One figure as the report and as the backend have it."""

    name: str
    ours: float
    theirs: float
    tolerance: float = 0.0

    @property
    def agrees(self) -> bool:
        """Whether they are the same."""
        return abs(self.ours - self.theirs) <= self.tolerance

    def cells(self) -> list[str]:
        """The line as text."""
        return [self.name, f"{self.ours:,.10g}", f"{self.theirs:,.10g}", "agree" if self.agrees else "DIFFER"]


class Backend:
    """A Phoenix at `url`."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, path: str, body: Any = None) -> Any:
        """What it answers, decoded."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json"})
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as response:
            return json.load(response)

    def totals(self) -> dict[str, Any]:
        """What it has worked out of the project."""
        found = self.ask("/graphql", {"query": TOTALS, "variables": {"name": PROJECT}})
        return found["data"]["getProjectByName"] or {}

    def spans(self) -> list[dict[str, Any]]:
        """Every span of the project."""
        found, cursor = [], ""
        while cursor is not None:
            page = self.ask(f"/v1/projects/{PROJECT}/spans?limit=500{cursor and f'&cursor={cursor}'}")
            found += page["data"]
            cursor = page["next_cursor"]
        return found


@contextmanager
def phoenix() -> Iterator[Backend]:
    """One that keeps all it has in a folder of its own, as long as it lasts."""
    ports = [_free_port(), _free_port()]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, Path(folder, "log").open("w+") as log:
        told = dict(zip(("PHOENIX_PORT", "PHOENIX_GRPC_PORT"), map(str, ports), strict=True))
        told |= {"PHOENIX_HOST": "127.0.0.1", "PHOENIX_WORKING_DIR": folder, "PHOENIX_TELEMETRY_ENABLED": "false"}
        command = [environments.python_of(NAME), "-m", "phoenix.server.main", "serve"]
        process = subprocess.Popen(command, cwd=folder, env=os.environ | told, stdout=log, stderr=log)
        try:
            backend = Backend(f"http://127.0.0.1:{ports[0]}")
            _wait_for(backend, process, Path(folder, "log"))
            yield backend
        finally:
            process.terminate()
            process.wait(30)


async def run_all(url: str, count: int) -> list[Result]:
    """The runs whose answers came; others are recorded, too, and have no part in what is compared."""
    exporter = OTelExporter(endpoint=url, resource={"openinference.project.name": PROJECT})
    replies = [
        [call("query_order_status", order_id="20250101"), call("query_logistics", order_id="20250101")],
        call("refund", order_id="20250101"),
        say("It is shipped, and at the regional hub."),
    ]
    async with SimulatedService(replies, profile="gpu-h100-llama8b", faults="503:20%", seed=7) as service:
        agent = Agent(
            model="llama-8b",
            endpoint=service.url,
            dialect="vllm",
            instructions="You are an order assistant. " * 20,
            tools=[query_order_status, query_logistics, refund],
            name="orders",
            version="1",
            retries=6,
            traces=False,
            exporters=[exporter],
        )
        async with agent:
            results = [await agent.run(f"Where is order 20250101? ({number})") for number in range(count)]
    await asyncio.to_thread(recorder.flush, 10)
    await asyncio.to_thread(exporter.close)
    return results


def compare(backend: Backend, results: list[Result]) -> list[Line]:
    """Every figure, ours and theirs."""
    spans = _settled(backend, results)
    totals = backend.totals()
    usages = [result.usage for result in results]
    read, written = (sum(getattr(usage, field) or 0 for usage in usages) for field in ("input_tokens", "output_tokens"))
    chats = [span for span in spans if span["span_kind"] == "LLM"]
    cached = [span["attributes"].get("gen_ai.usage.cache_read.input_tokens", 0) for span in chats]
    attempts = [facts for result in results for facts in result.trace.attempts]
    calls = [facts for result in results for turn in result.trace.turns for facts in turn.calls]
    return [
        Line("runs", len(results), totals["traceCount"]),
        Line("prompt tokens", read, totals["tokenCountPrompt"]),
        Line("completion tokens", written, totals["tokenCountCompletion"]),
        Line("all tokens", read + written, totals["tokenCountTotal"]),
        Line("cached tokens", sum(usage.cached_tokens or 0 for usage in usages), sum(cached)),
        Line("requests", len(attempts), len(chats)),
        Line("failed requests", _failed(facts.outcome for facts in attempts), _failed(_status(chats))),
        Line("calls", len(calls), sum(span["span_kind"] == "TOOL" for span in spans)),
        Line(
            "failed calls",
            _failed(facts.outcome for facts in calls),
            _failed(_status(span for span in spans if span["span_kind"] == "TOOL")),
        ),
        Line("runs whose tokens differ", 0, _differing(spans, results)),
        Line("spans of another kind than their name", 0, sum(not _is_of_its_kind(span) for span in spans)),
        Line("spans not below their run", 0, _astray(spans)),
        *_times(spans, results),
    ]


def _settled(backend: Backend, results: list[Result]) -> list[dict[str, Any]]:
    """Its spans, once the last has come."""
    wanted = sum(1 + len(result.trace.attempts) for result in results)
    until = time.monotonic() + SETTLING
    while True:
        spans = backend.spans() if backend.totals() else []
        told = sum(span["span_kind"] in ("AGENT", "LLM") for span in spans)
        if told >= wanted or time.monotonic() > until:
            return spans
        time.sleep(0.5)


def _status(spans: Any) -> Iterator[str]:
    return (span["status_code"] for span in spans)


def _failed(outcomes: Any) -> int:
    return sum(outcome in ("failed", "error", "ERROR") for outcome in outcomes)


def _differing(spans: list[dict[str, Any]], results: list[Result]) -> int:
    """How many runs have other tokens than theirs, each by its own trace."""
    theirs: Counter[tuple[str, str]] = Counter()
    run_of = {span["context"]["trace_id"]: _run_id(span) for span in spans if span["span_kind"] == "AGENT"}
    for span in spans:
        for kind in ("prompt", "completion"):
            run = run_of.get(span["context"]["trace_id"], "")
            theirs[run, kind] += span["attributes"].get(f"llm.token_count.{kind}", 0)
    return sum(
        (theirs[result.trace.trace_id, "prompt"], theirs[result.trace.trace_id, "completion"])
        != (result.usage.input_tokens, result.usage.output_tokens)
        for result in results
    )


def _run_id(span: dict[str, Any]) -> str:
    return str(span["attributes"].get("hotloop.run.id", ""))


def _is_of_its_kind(span: dict[str, Any]) -> bool:
    return bool(span["span_kind"] == KINDS.get(span["name"].split()[0], "CHAIN"))


def _astray(spans: list[dict[str, Any]]) -> int:
    roots = {span["context"]["trace_id"]: span for span in spans if span["span_kind"] == "AGENT"}
    above = {trace_id: root["context"]["span_id"] for trace_id, root in roots.items()}
    return sum(span["parent_id"] != above.get(span["context"]["trace_id"]) for span in spans if span["parent_id"])


def _times(spans: list[dict[str, Any]], results: list[Result]) -> list[Line]:
    """The time of all runs, and of all their tools; Phoenix keeps microseconds."""
    tools = sum(result.trace.tools().work_ms for result in results)
    runs = sum(result.trace.end_to_end_ms for result in results)
    theirs: Counter[str] = Counter()
    for span in spans:
        theirs[span["span_kind"]] += _us(span["end_time"]) - _us(span["start_time"])
    close = CLOSE_MS * len(results)
    return [
        Line("end to end, ms", round(runs, 3), theirs["AGENT"] / 1000, close),
        Line("tools at work, ms", round(tools, 3), theirs["TOOL"] / 1000, 3 * close),
    ]


def _us(text: str) -> int:
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait_for(backend: Backend, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            backend.ask("/v1/projects")
            return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            if process.poll() is not None or time.monotonic() > until:
                raise Unusable(f"Phoenix does not answer; it said: {log.read_text()[-2000:]}") from None
        time.sleep(0.5)


class Unusable(Exception):
    """No figures can be had; the message says why."""


def main() -> int:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=30, help="how many [default: 30]")
    count = parser.parse_args().runs
    try:
        if not environments.ready(NAME):
            print("Phoenix is installed; that takes a few minutes.", flush=True)
            environments.make(NAME)
        os.environ["OTEL_METRICS_EXPORTER"] = "none"  # Phoenix takes spans only
        with phoenix() as backend:
            lines = compare(backend, asyncio.run(run_all(backend.url, count)))
    except (Unusable, ModelError, subprocess.CalledProcessError) as error:
        print(f"No figures: {error}")
        return 2
    version = (environments.HERE / "requirements" / f"{NAME}.txt").read_text().strip()
    print(columns([["", "report", version, ""], *(line.cells() for line in lines)], "<>><"))
    return 0 if all(line.agrees for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
