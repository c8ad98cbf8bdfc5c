"""Runs as metrics of Prometheus; needs the extra `prometheus`."""
