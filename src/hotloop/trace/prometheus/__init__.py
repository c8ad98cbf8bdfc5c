"""Runs as metrics of Prometheus; needs the extra `prometheus`."""

from hotloop.trace.prometheus.exporter import PrometheusExporter

__all__ = ["PrometheusExporter"]
