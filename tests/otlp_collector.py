"""A collector on loopback: it takes OTLP over HTTP and keeps what it was sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue


class Collected:
    """What a collector at `url` was sent; `refused` are the paths that it takes nothing at.

    It answers while it is `awake`.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.refused: set[str] = set()
        self.awake = threading.Event()
        self.awake.set()
        self.headers: list[dict[str, str]] = []
        self.traces: list[ExportTraceServiceRequest] = []
        self.measured: list[ExportMetricsServiceRequest] = []

    @property
    def spans(self) -> list[Any]:
        """All spans, as they began: a run before what is in it."""
        scopes = (scope for sent in self.traces for of in sent.resource_spans for scope in of.scope_spans)
        spans = [span for scope in scopes for span in scope.spans]
        return sorted(spans, key=lambda span: (span.start_time_unix_nano, not span.name.startswith("invoke_agent")))

    @property
    def metrics(self) -> dict[str, Any]:
        """The newest of each metric."""
        scopes = (scope for sent in self.measured for of in sent.resource_metrics for scope in of.scope_metrics)
        return {metric.name: metric for scope in scopes for metric in scope.metrics}

    @property
    def resource(self) -> dict[str, Any]:
        """What all spans are of."""
        return told(self.traces[-1].resource_spans[0].resource)


def told(thing: Any) -> dict[str, Any]:
    """The attributes of a span, a data point or a resource."""
    return {each.key: _value(each.value) for each in thing.attributes}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    return [_value(each) for each in found.values] if kind == "array_value" else found


@contextmanager
def collecting() -> Iterator[Collected]:
    """A collector, as long as it lasts."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            collected.awake.wait(10)
            collected.headers.append({name.lower(): value for name, value in self.headers.items()})
            if self.path in collected.refused:
                self.send_error(405)
                return
            if self.path == "/v1/traces":
                collected.traces.append(ExportTraceServiceRequest.FromString(body))
            else:
                collected.measured.append(ExportMetricsServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collected = Collected(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield collected
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
