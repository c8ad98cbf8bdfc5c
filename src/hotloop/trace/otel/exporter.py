"""Where runs go that OpenTelemetry is to tell of: a collector, or the providers that a program has already."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from hotloop.errors import ConfigError
from hotloop.fields import Seconds, Secrets, Text, check_fields, require
from hotloop.masks import without_secrets
from hotloop.trace.otel import names
from hotloop.trace.otel.names import Semconv
from hotloop.trace.record import TraceRecord
from hotloop.trace.w3c import Position

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from hotloop.trace.otel.pipe import Pipe

_CLOSING = 5.0  # seconds
_CAPTURED = ("true", "1", "span_only", "span_and_event")


class OTelOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The plain options of an `OTelExporter`."""

    endpoint: Text | None = None
    headers: Secrets = {}
    resource: dict[str, str] = {}
    timeout: Seconds | None = None
    semconv: Semconv = "released"
    content: bool | None = None

    def __post_init__(self) -> None:
        if self.endpoint is not None:
            _check_endpoint(self.endpoint)


class OTelExporter:
    """An `Exporter` that tells runs as OpenTelemetry spans and metrics, by its conventions for generative AI.

    They go by OTLP over HTTP to the collector at `endpoint` (its base URL, such as "http://localhost:4318"), with
    `headers`; what is not given is as the `OTEL_*` variables say. `resource` are attributes of all of them, `timeout`
    is seconds for one request. Or they go to a `tracer_provider` and a `meter_provider` of the SDK that the program has
    already, and sends and closes itself.

    `semconv` is the revision of the names: the "released" ones, or the "latest". What was said is told only with
    `content` (None: as OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT says), and as far as it is recorded.

    A collector that cannot be reached is one warning, and holds no run up. Raises ConfigError for what cannot be.
    """

    def __init__(
        self,
        *,
        endpoint: str | None = None,
        headers: Mapping[str, str] | None = None,
        resource: Mapping[str, str] | None = None,
        timeout: float | None = None,
        semconv: Semconv = "released",
        content: bool | None = None,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        plain = {"endpoint": endpoint, "headers": headers or {}, "resource": resource or {}, "timeout": timeout}
        check_fields(OTelOptions, plain | {"semconv": semconv, "content": content}, "OTelExporter")
        if endpoint is not None:
            _check_endpoint(endpoint)
        theirs = tracer_provider is not None or meter_provider is not None
        sent = "a program's own providers have that already; give either them or that"
        for name, value in plain.items():
            require(not (theirs and value), f"OTelExporter({name}=...): {sent}.")
        self.content = _is_captured() if content is None else content
        self._new = partial(_new_pipe, semconv, plain, (tracer_provider, meter_provider) if theirs else None)
        self._opening = threading.Lock()
        self._pipe: Pipe | None = None
        self._opened()

    def export(self, records: Sequence[TraceRecord]) -> None:
        """Tell of these runs. Raises nothing: what does not arrive is warned of once."""
        pipe = self._opened()
        for record in records:
            pipe.tell(record, self.content)
            time.sleep(0)  # the event loop waits for the interpreter meanwhile

    def position(self, run_id: str, parent: Position | None) -> Position | None:
        """See `Positions`."""
        return self._opened().position(run_id, parent)

    def flush(self, seconds: float = _CLOSING) -> bool:
        """Send what waits; False if it is not done within this time."""
        return self._pipe is None or self._pipe.flush(seconds)

    def close(self) -> None:
        """Send what waits, within 5 s, and close the connections; it is opened again when it is used again."""
        with self._opening:
            pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.close(_CLOSING)

    def _opened(self) -> Pipe:
        with self._opening:
            if self._pipe is None:
                self._pipe = self._new()
            return self._pipe


def _new_pipe(semconv: Semconv, plain: dict[str, Any], providers: tuple[Any, Any] | None) -> Pipe:
    try:
        from hotloop.trace.otel.pipe import Pipe
    except ModuleNotFoundError as error:
        raise ConfigError(f'OTelExporter needs {error.name}: pip install "hotloop[otel]".') from None
    return Pipe.to(semconv, **plain) if providers is None else Pipe(semconv, *providers)


def _check_endpoint(endpoint: str) -> None:
    try:
        parts = urlsplit(endpoint)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        usable = usable and parts.port != 0  # which raises if it is none
    except ValueError:
        usable = False
    told = f"The endpoint {without_secrets(repr(endpoint))} is no URL of a collector"
    require(usable and endpoint.isprintable() and " " not in endpoint, f"{told}; write it like http://localhost:4318.")
    bare = "?" not in endpoint and "#" not in endpoint
    require(bare, "The endpoint of a collector is its base URL, without ? and #; give a key as one of the headers.")


def _is_captured() -> bool:
    return os.environ.get(names.CONTENT_VARIABLE, "").strip().lower() in _CAPTURED
