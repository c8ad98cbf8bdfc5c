"""Where the spans of a foreign agent go: a file of OTLP JSON lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult


def exporter(path: str) -> SpanExporter:
    """The exporter of OpenTelemetry, or ours where a framework is held to a version that has none yet."""
    try:
        from opentelemetry.exporter.otlp.json.file import FileSpanExporter
    except ModuleNotFoundError:
        return _FromProtobuf(path)
    return FileSpanExporter(path)


class _FromProtobuf(SpanExporter):
    """Writes what protobuf's own JSON makes of the request: with ids in base64, and nanoseconds as strings."""

    def __init__(self, path: str) -> None:
        self._path = path

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        from google.protobuf.json_format import MessageToJson
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

        with Path(self._path).open("a") as file:
            file.write(MessageToJson(encode_spans(spans), indent=None) + "\n")
        return SpanExportResult.SUCCESS
