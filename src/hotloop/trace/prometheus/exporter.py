"""An exporter that keeps metrics of runs, to be scraped by Prometheus."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from wsgiref.simple_server import WSGIServer

from hotloop.errors import ConfigError
from hotloop.fields import require
from hotloop.trace.alerts.alert import Alert
from hotloop.trace.measured import Measured
from hotloop.trace.record import TraceRecord

try:
    from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server
except ModuleNotFoundError:
    raise ConfigError('Metrics of Prometheus need one more package: pip install "hotloop[prometheus]".') from None

from hotloop.trace.prometheus.series import Series


class PrometheusExporter:
    """Metrics of runs in a `registry` (None: one of its own), served at http://host:port/metrics if there is a port.

    They are served from the first run on, or from `serve`; port 0 is any free one. The exporter may belong to several
    agents, and be one of the places that alerts are told to. Raises ConfigError for a port that cannot be.
    """

    name = "prometheus"

    def __init__(
        self,
        *,
        port: int | None = None,
        host: str = "127.0.0.1",
        registry: CollectorRegistry | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        require(port is None or 0 <= port < 1 << 16, f"PrometheusExporter(port={port!r}): give a port, 0 to 65535.")
        self.registry = CollectorRegistry() if registry is None else registry
        self._host = host
        self._port = port
        labels = ["alert", "agent", "of"]
        try:
            self._series = Series(self.registry, clock)
            self._alerts = Gauge("hotloop_alert", "1 while an alert is on.", labels, registry=self.registry)
            self._began = Counter("hotloop_alerts", "Alerts that began.", labels, registry=self.registry)
        except ValueError:
            raise ConfigError(f"There is a {type(self).__name__} for this registry already; share that one.") from None
        self._server: tuple[WSGIServer, threading.Thread] | None = None
        self._lock = threading.Lock()

    @property
    def port(self) -> int | None:
        """The port that it is served at; None while it is not."""
        return self._server[0].server_port if self._server else None

    def serve(self) -> None:
        """Serve the metrics, if they are not already. Raises ConfigError for a port that cannot be had."""
        with self._lock:
            if self._port is None or self._server is not None:
                return
            try:
                self._server = start_http_server(self._port, self._host, self.registry)
            except OSError as error:
                why = f"{self._host}:{self._port}: {error.strerror or error}"
                raise ConfigError(f"Metrics cannot be served at {why}. Give another port.") from None

    def export(self, records: Sequence[TraceRecord]) -> None:
        """See `hotloop.trace.recorder.Exporter`."""
        for record in records:
            self._series.add(Measured(record))
        self.serve()

    def missed(self, runs: int) -> None:
        """Count runs that were dropped before they came here."""
        self._series.dropped.inc(runs)

    def tell(self, alert: Alert) -> None:
        """Show an alert that has begun or is over."""
        labels = (alert.name, alert.agent, alert.of)
        self._alerts.labels(*labels).set(alert.began)
        if alert.began:
            self._began.labels(*labels).inc()

    def close(self) -> None:
        """Stop serving; what was counted stays."""
        with self._lock:
            server, self._server = self._server, None
        if server is not None:
            server[0].shutdown()
            server[0].server_close()
            server[1].join()
