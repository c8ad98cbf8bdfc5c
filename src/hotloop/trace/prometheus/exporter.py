"""An exporter that keeps metrics of runs, to be scraped by Prometheus."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hotloop.errors import ConfigError
from hotloop.fields import require
from hotloop.trace.measured import Measured
from hotloop.trace.record import TraceRecord

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from prometheus_client import CollectorRegistry

    from hotloop.trace.alerts.alert import Alert

_log = logging.getLogger("hotloop.trace")

_MISSING = 'Metrics of Prometheus need one more package: pip install "hotloop[prometheus]".'


class PrometheusExporter:
    """An `Exporter` that keeps metrics of runs in a `registry` of prometheus_client, None for one of its own.

    With a `port` they are served at http://host:port/metrics, from the first run on or from `serve`; port 0 is any free
    one. Several agents may share it, and it is one of the places that `Alerts` can tell theirs to.

    Raises ConfigError for what cannot be, and without prometheus_client.
    """

    name = "prometheus"

    def __init__(
        self,
        *,
        port: int | None = None,
        host: str = "127.0.0.1",
        registry: CollectorRegistry | None = None,
    ) -> None:
        try:
            from prometheus_client import CollectorRegistry

            from hotloop.trace.prometheus.series import Series
        except ModuleNotFoundError as error:
            if error.name != "prometheus_client":
                raise
            raise ConfigError(_MISSING) from None
        usable = port is None or (type(port) is int and 0 <= port < 1 << 16)
        require(usable, f"PrometheusExporter(port={port!r}): give a port, 0 to 65535.")
        self.registry = CollectorRegistry() if registry is None else registry
        self._host = host
        self._port = port
        self._series = Series(self.registry)
        self._server: tuple[WSGIServer, threading.Thread] | None = None
        self._lock = threading.Lock()
        self._told = False

    @property
    def port(self) -> int | None:
        """The port that it is served at; None while it is not."""
        return self._server[0].server_port if self._server else None

    def serve(self) -> None:
        """Serve the metrics, if they are not already. Raises ConfigError for a port that cannot be had."""
        from prometheus_client import start_http_server

        with self._lock:
            if self._port is None or self._server is not None:
                return
            try:
                self._server = start_http_server(self._port, self._host, self.registry)
            except OSError as error:
                why = f"{self._host}:{self._port}: {error.strerror or error}"
                raise ConfigError(f"Metrics cannot be served at {why}. Give another port.") from None

    def export(self, records: Sequence[TraceRecord]) -> None:
        """Count these; that they cannot be served is one warning, and tried again with the next."""
        for record in records:
            self._series.add(Measured(record))
        try:
            self.serve()
        except ConfigError as error:
            if not self._told:
                _log.warning("Runs are counted, but not shown to Prometheus until that works: %s", error)
            self._told = True

    def missed(self, runs: int) -> None:
        """Count runs that were dropped before they came here."""
        self._series.dropped.inc(runs)

    def tell(self, alert: Alert) -> None:
        """Show an alert that has begun or is over."""
        self._series.show(alert)

    def close(self) -> None:
        """Stop serving; what was counted stays."""
        with self._lock:
            server, self._server = self._server, None
        if server is not None:
            server[0].shutdown()
            server[0].server_close()
            server[1].join()
