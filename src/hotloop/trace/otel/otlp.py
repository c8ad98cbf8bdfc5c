"""The way to a collector: OpenTelemetry's own exporters, of whose troubles a person is told once."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExportResult, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

from hotloop.trace.otel.ids import GivenIds

_log = logging.getLogger("hotloop.trace")
_THEIRS = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.proto.http.metric_exporter",
    "opentelemetry.sdk._shared_internal",
)
_WAITING = 16_384  # spans that may wait to be sent
_ALL = "spans and metrics"
_REFUSED = re.compile(r"batch (code: .*)")
_UNREACHED = re.compile(r"(?:\[Errno -?\d+\]|due to) ([^'\")]+)")
_WARNING = (
    "No %s reach OpenTelemetry's collector at %s (%s). What is not sent is lost; runs are not held up. "
    "This is told once, until it works again."
)
_SIGNALS = ("/v1/traces", "/v1/metrics")
_here = threading.local()
T = TypeVar("T")


class _Quiet(logging.Filter):
    """Keeps back what the SDK logs where we tell of it ourselves."""

    def filter(self, record: logging.LogRecord) -> bool:
        heard: list[str] | None = getattr(_here, "heard", None)
        if heard is not None:
            heard.append(record.getMessage())
        return heard is None


_quiet = _Quiet()


@contextmanager
def quiet() -> Iterator[list[str]]:
    """What the SDK would log in this thread, instead of its logging that."""
    for name in _THEIRS:
        logging.getLogger(name).addFilter(_quiet)  # which is there once, however often it is added
    heard: list[str] = []
    _here.heard = heard
    try:
        yield heard
    finally:
        _here.heard = None


class _Troubles:
    """What a person was told does not reach a collector; it is told once, until it works again."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def send(self, what: str, endpoint: str, export: Callable[[], T], good: T) -> T:
        """Send something by `export`, which gives `good` if that arrived."""
        with quiet() as heard:
            result = export()
        if result == good:
            self._works(what)
        else:
            self._fails(what, endpoint, heard[0] if heard else "no reason given")
        return result

    def _works(self, what: str) -> None:
        if self._told & {what, _ALL}:
            self._told -= {what, _ALL}
            _log.info("OpenTelemetry's collector takes %s again.", what)

    def _fails(self, what: str, endpoint: str, reason: str) -> None:
        refused = _REFUSED.search(reason)
        which = what if refused else _ALL  # what cannot be reached takes nothing at all
        if which not in self._told:
            self._told.add(which)
            found = refused or _UNREACHED.search(reason)
            _log.warning(_WARNING, which, endpoint, (found[1] if found else reason).rstrip("."))


class _Spans(OTLPSpanExporter):
    def __init__(self, troubles: _Troubles, **options: Any) -> None:
        super().__init__(**options)
        self._troubles = troubles

    def export(self, spans: Any) -> SpanExportResult:
        export = partial(super().export, spans)
        return self._troubles.send("spans", self._endpoint, export, SpanExportResult.SUCCESS)

    def shutdown(self) -> None:
        if not self._shutdown:
            super().shutdown()  # type: ignore[no-untyped-call]


class _Metrics(OTLPMetricExporter):
    def __init__(self, troubles: _Troubles, **options: Any) -> None:
        super().__init__(**options)
        self._troubles = troubles

    def export(self, metrics_data: Any, timeout_millis: float | None = 10_000, **more: Any) -> MetricExportResult:
        export = partial(super().export, metrics_data, timeout_millis, **more)
        return self._troubles.send("metrics", self._endpoint, export, MetricExportResult.SUCCESS)

    def shutdown(self, timeout_millis: float = 30_000, **more: Any) -> None:
        if not self._shutdown:
            super().shutdown(timeout_millis, **more)


class Collector:
    """Providers that send to one collector, and how they end; a provider is None where the environment wants none.

    Times are seconds; `endpoint` is the base URL of the collector, None for what the environment says.
    """

    def __init__(
        self, endpoint: str | None, headers: Mapping[str, str], resource: Mapping[str, str], timeout: float | None
    ) -> None:
        base = None if endpoint is None else _base(endpoint)
        options: dict[str, Any] = {"headers": dict(headers) or None, "timeout": timeout}
        troubles = _Troubles()
        about = Resource.create({**({} if _is_named() else {"service.name": "hotloop"}), **resource})
        self.tracer_provider: TracerProvider | None = None
        self.meter_provider: MeterProvider | None = None
        self._exporters: list[_Spans | _Metrics] = []
        if _wanted("TRACES"):
            spans = _Spans(troubles, endpoint=base and base + _SIGNALS[0], **options)
            self.tracer_provider = TracerProvider(resource=about, id_generator=GivenIds(), shutdown_on_exit=False)
            self.tracer_provider.add_span_processor(BatchSpanProcessor(spans, max_queue_size=_most_waiting()))
            self._exporters.append(spans)
        if _wanted("METRICS"):
            metrics = _Metrics(troubles, endpoint=base and base + _SIGNALS[1], **options)
            reader = PeriodicExportingMetricReader(metrics)
            self.meter_provider = MeterProvider([reader], about, shutdown_on_exit=False)
            self._exporters.append(metrics)

    def close(self, seconds: float) -> None:
        """Send what waits, for at most so long."""
        if not ends_within(seconds, [each.shutdown for each in (self.tracer_provider, self.meter_provider) if each]):
            for exporter in self._exporters:
                exporter.shutdown()
            _log.warning("Not all spans and metrics could be sent within %g s; the others are lost.", seconds)


def ends_within(seconds: float, work: list[Callable[[], Any]]) -> bool:
    """Do this work, each in a thread of its own, and wait for all of it; False if it is not done within this time."""
    threads = [threading.Thread(target=each, daemon=True) for each in work]
    for thread in threads:
        thread.start()
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(until - time.monotonic(), 0))
    return not any(thread.is_alive() for thread in threads)


def _base(endpoint: str) -> str:
    for signal in _SIGNALS:
        endpoint = endpoint.removesuffix(signal)
    return endpoint.rstrip("/")


def _wanted(signal: str) -> bool:
    return os.environ.get(f"OTEL_{signal}_EXPORTER", "").strip().lower() != "none"


def _is_named() -> bool:
    given = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return bool(os.environ.get("OTEL_SERVICE_NAME")) or "service.name=" in given


def _most_waiting() -> int | None:
    """None leaves it to the environment."""
    return None if "OTEL_BSP_MAX_QUEUE_SIZE" in os.environ else _WAITING
