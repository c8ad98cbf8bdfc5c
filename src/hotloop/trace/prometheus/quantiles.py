"""Exact percentiles of the last minutes, as gauges: a histogram knows them only to its bounds."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from hotloop.trace.window import Window

_SHARES = ("0.5", "0.95", "0.99")
_SECONDS = 600.0
_MOST = 1000  # values of one series


class Quantiles(Collector):
    """Windows of seconds by the value of one label, "" for a metric without labels; read at each scrape."""

    def __init__(self, name: str, documentation: str, label: str) -> None:
        self._name = name
        self._documentation = documentation
        self._labels = [label, "quantile"] if label else ["quantile"]
        self._lock = threading.Lock()
        self._windows: dict[str, Window] = {}

    def observe(self, of: str, seconds: float) -> None:
        """One more value."""
        with self._lock:
            if of not in self._windows:
                self._windows[of] = Window(_SECONDS, _MOST)
            self._windows[of].add(time.time(), seconds)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """What is true now; nothing of a series without values."""
        family = GaugeMetricFamily(self._name, self._documentation, labels=self._labels)
        with self._lock:
            for of, window in self._windows.items():
                window.forget(time.time())
                for share in _SHARES if len(window) else ():
                    labels = [of, share] if len(self._labels) == 2 else [share]
                    family.add_metric(labels, window.percentile(float(share) * 100))
        yield family
