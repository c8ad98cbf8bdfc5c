"""The way of records to providers of OpenTelemetry. Imports the SDK, so it is itself imported late."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk.trace import Tracer
from opentelemetry.trace import NoOpTracer, SpanKind, Status, StatusCode, TracerProvider, set_span_in_context
from opentelemetry.trace import Span as OTelSpan

from hotloop.fields import require
from hotloop.trace.otel import names
from hotloop.trace.otel.ids import GivenIds, context_of, parent_of, position_in
from hotloop.trace.otel.metrics import Measures
from hotloop.trace.otel.names import METRICS, Semconv
from hotloop.trace.otel.otlp import Collector
from hotloop.trace.otel.spans import Span, spans_of
from hotloop.trace.record import TraceRecord
from hotloop.trace.recording.ending import ends_within
from hotloop.trace.w3c import Position, w3c_trace_id

_SCHEMAS = {"released": "https://opentelemetry.io/schemas/1.41.0", "latest": None}


class Pipe:
    """Tells of runs to these providers; a `collector` is closed with it.

    Raises ConfigError for a provider that is not of the SDK.
    """

    def __init__(
        self,
        semconv: Semconv,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
        collector: Collector | None = None,
    ) -> None:
        self._collector = collector
        self._providers = [each for each in (tracer_provider, meter_provider) if each is not None]
        scope = names.SCOPE, version("hotloop"), _SCHEMAS[semconv]
        self._tracer = None if tracer_provider is None else _sdk_tracer(tracer_provider.get_tracer(*scope))
        self._ids = GivenIds() if self._tracer is None else _ids_of(self._tracer)
        self._measures = None
        if meter_provider is not None:
            self._measures = Measures(meter_provider.get_meter(*scope), METRICS[semconv])

    @classmethod
    def to(
        cls,
        semconv: Semconv,
        endpoint: str | None,
        headers: Mapping[str, str],
        resource: Mapping[str, str],
        timeout: float | None,
    ) -> Pipe:
        """One to a collector; see `OTelExporter`."""
        collector = Collector(endpoint, headers, resource, timeout)
        return cls(semconv, collector.tracer_provider, collector.meter_provider, collector)

    def tell(self, record: TraceRecord, content: bool) -> None:
        """Tell of this run, with what was said if it has that and it is asked for."""
        if self._tracer is not None:
            self._spans(self._tracer, record, content)
        if self._measures is not None:
            self._measures.take(record)

    def position(self, run_id: str, parent: Position | None) -> Position | None:
        """See `Positions`."""
        return parent if self._tracer is None else position_in(self._tracer.sampler, run_id, parent)

    def flush(self, seconds: float) -> bool:
        """Send what waits; False if it is not done within this time."""
        return ends_within(seconds, [each.force_flush for each in self._providers if hasattr(each, "force_flush")])

    def close(self, seconds: float) -> None:
        """Send what waits, for at most so long, and end what is ours."""
        if self._collector is not None:
            self._collector.close(seconds)
        else:
            self.flush(seconds)

    def _spans(self, tracer: Tracer, record: TraceRecord, content: bool) -> None:
        root, *others = spans_of(record, content=content)
        trace_id = w3c_trace_id(record.trace_id)
        first = self._begin(tracer, root, trace_id, context_of(parent_of(record)))
        if first.is_recording():
            below = set_span_in_context(first)
            for span in others:
                self._begin(tracer, span, trace_id, below).end(span.end)
        first.end(root.end)

    def _begin(self, tracer: Tracer, span: Span, trace_id: str, context: Context) -> OTelSpan:
        self._ids.set(trace_id, span.span_id)
        kind = SpanKind.CLIENT if span.client else SpanKind.INTERNAL
        begun = tracer.start_span(span.name, context, kind, span.attributes, start_time=span.start)
        if span.error is not None:
            begun.set_status(Status(StatusCode.ERROR, span.error))
        return begun


def _sdk_tracer(tracer: Any) -> Tracer | None:
    """A tracer whose spans can be given ids; None if OpenTelemetry is switched off. Raises ConfigError for another."""
    if isinstance(tracer, NoOpTracer):
        return None
    what = f"it gives a {type(tracer).__name__}, whose spans cannot be given ids"
    require(isinstance(tracer, Tracer), f"OTelExporter(tracer_provider=...): {what}; give the SDK's TracerProvider.")
    return tracer  # type: ignore[no-any-return]


def _ids_of(tracer: Tracer) -> GivenIds:
    """What gives the tracer's spans their ids; a provider has one tracer for all exporters."""
    if not isinstance(tracer.id_generator, GivenIds):
        tracer.id_generator = GivenIds()
    return tracer.id_generator
