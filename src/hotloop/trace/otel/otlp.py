"""The way to a collector: OpenTelemetry's own exporters, and the spans that wait for them."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExportResult, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

from hotloop.trace.otel.ids import GivenIds
from hotloop.trace.otel.troubles import Troubles
from hotloop.trace.recording.ending import ends_within

_log = logging.getLogger("hotloop.trace")
_WAITING = 16_384  # spans that may wait to be sent
_SIGNALS = ("/v1/traces", "/v1/metrics")


class _Spans(OTLPSpanExporter):
    """Sends spans; `taken` counts those that it was given to send."""

    def __init__(self, troubles: Troubles, **options: Any) -> None:
        super().__init__(**options)
        self._troubles = troubles
        self.taken = 0

    def export(self, spans: Any) -> SpanExportResult:
        self.taken += len(spans)
        export = partial(super().export, spans)
        return self._troubles.send("spans", self._endpoint, export, SpanExportResult.SUCCESS)

    def shutdown(self) -> None:
        if not self._shutdown:
            super().shutdown()  # type: ignore[no-untyped-call]


class _Metrics(OTLPMetricExporter):
    def __init__(self, troubles: Troubles, **options: Any) -> None:
        super().__init__(**options)
        self._troubles = troubles

    def export(self, metrics_data: Any, timeout_millis: float | None = 10_000, **more: Any) -> MetricExportResult:
        export = partial(super().export, metrics_data, timeout_millis, **more)
        return self._troubles.send("metrics", self._endpoint, export, MetricExportResult.SUCCESS)

    def shutdown(self, timeout_millis: float = 30_000, **more: Any) -> None:
        if not self._shutdown:
            super().shutdown(timeout_millis, **more)


class _Waiting(BatchSpanProcessor):
    """The spans that wait to be sent by an exporter. The SDK drops what is too much for it without a count."""

    def __init__(self, exporter: _Spans, troubles: Troubles) -> None:
        self._most = _most_waiting()
        super().__init__(exporter, max_queue_size=self._most)
        self._spans = exporter
        self._troubles = troubles
        self._came = 0
        self._process = os.getpid()

    def on_end(self, span: ReadableSpan) -> None:
        if os.getpid() != self._process:  # what waited is the parent's
            self._process, self._came = os.getpid(), self._spans.taken
        if self._came - self._spans.taken >= self._most:
            self._troubles.lose(self._most)
        elif span.context is not None and span.context.trace_flags.sampled:
            self._came += 1
            super().on_end(span)


class Collector:
    """Providers that send to one collector, and how they end; a provider is None where the environment wants none.

    Times are seconds; `endpoint` is the base URL of the collector, None for what the environment says.
    """

    def __init__(
        self, endpoint: str | None, headers: Mapping[str, str], resource: Mapping[str, str], timeout: float | None
    ) -> None:
        base = None if endpoint is None else _base(endpoint)
        options: dict[str, Any] = {"headers": dict(headers) or None, "timeout": timeout}
        self._troubles = troubles = Troubles()
        about = Resource.create({**({} if _is_named() else {"service.name": "hotloop"}), **resource})
        self.tracer_provider: TracerProvider | None = None
        self.meter_provider: MeterProvider | None = None
        self._exporters: list[_Spans | _Metrics] = []
        if _wanted("TRACES"):
            spans = _Spans(troubles, endpoint=base and base + _SIGNALS[0], **options)
            self.tracer_provider = TracerProvider(resource=about, id_generator=GivenIds(), shutdown_on_exit=False)
            self.tracer_provider.add_span_processor(_Waiting(spans, troubles))
            self._exporters.append(spans)
        if _wanted("METRICS"):
            metrics = _Metrics(troubles, endpoint=base and base + _SIGNALS[1], **options)
            reader = PeriodicExportingMetricReader(metrics)
            self.meter_provider = MeterProvider([reader], about, shutdown_on_exit=False)
            self._exporters.append(metrics)

    def close(self, seconds: float) -> None:
        """Send what waits, for at most so long, and not at all to a collector that cannot be reached."""
        self._troubles.end(self._give_up)
        if not ends_within(seconds, [each.shutdown for each in (self.tracer_provider, self.meter_provider) if each]):
            self._give_up()
            _log.warning("Not all spans and metrics could be sent within %g s; the others are lost.", seconds)
        self._troubles.close()

    def _give_up(self) -> None:
        for exporter in self._exporters:
            exporter.shutdown()


def _base(endpoint: str) -> str:
    for signal in _SIGNALS:
        endpoint = endpoint.removesuffix(signal)
    return endpoint.rstrip("/")


def _wanted(signal: str) -> bool:
    return os.environ.get(f"OTEL_{signal}_EXPORTER", "").strip().lower() != "none"


def _is_named() -> bool:
    given = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return bool(os.environ.get("OTEL_SERVICE_NAME")) or "service.name=" in given


def _most_waiting() -> int:
    given = os.environ.get("OTEL_BSP_MAX_QUEUE_SIZE", "").strip()
    return int(given) if given.isdecimal() else _WAITING
