"""Where runs are told beside the store of traces, declared."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec
from msgspec import Meta

from hotloop.fields import Secret, Text, require
from hotloop.masks import masked
from hotloop.trace.alerts.rule import AlertRule
from hotloop.trace.otel.exporter import OTelExporter, OTelOptions
from hotloop.words import listed

if TYPE_CHECKING:
    from hotloop.trace.alerts.alerts import Alerts
    from hotloop.trace.prometheus.exporter import PrometheusExporter
    from hotloop.trace.recording.recorder import Exporter

Port: TypeAlias = Annotated[int, Meta(ge=0, lt=1 << 16)]


class PrometheusSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Where metrics are served; see `hotloop.PrometheusExporter`."""

    port: Port
    host: Text = "127.0.0.1"


class TelemetrySpec(msgspec.Struct, frozen=True, kw_only=True):
    """Where runs are told: `otel` says how to OpenTelemetry, true as its variables say; see `hotloop.OTelExporter`.

    `prometheus` says where metrics are served, `alerts` by which rules alerts are told: to the log, to the `webhook`
    (a URL) and to Prometheus, as far as they are declared.
    """

    otel: OTelOptions | bool = False
    prometheus: PrometheusSpec | None = None
    alerts: tuple[AlertRule, ...] = ()
    webhook: Secret | None = None

    def __post_init__(self) -> None:
        if self.webhook is not None:
            from hotloop.trace.alerts.webhook import check_url

            check_url(self.webhook)
        places = ["log", *(name for name in ("webhook", "prometheus") if getattr(self, name) is not None)]
        for number, rule in enumerate(self.alerts):
            for name in rule.to:
                there = f"alerts[{number}].to: there is no {name} in this section; there are {listed(name, places)}"
                require(name in places, there)

    def __repr__(self) -> str:
        return masked(self)

    def exporters(self) -> list[Exporter]:
        """What it declares; agents that declare the same share it. Raises ConfigError for what is not installed."""
        otel = OTelOptions() if self.otel is True else self.otel
        found: list[Exporter] = [_otel(msgspec.json.encode(otel))] if otel else []
        if self.prometheus is not None:
            found.append(_prometheus(self.prometheus))
        if self.alerts:
            found.append(_alerts(self.alerts, self.webhook, self.prometheus))
        return found


@cache
def _otel(options: bytes) -> OTelExporter:
    return OTelExporter(**msgspec.json.decode(options))


@cache
def _prometheus(spec: PrometheusSpec) -> PrometheusExporter:
    from hotloop.trace.prometheus.exporter import PrometheusExporter

    return PrometheusExporter(port=spec.port, host=spec.host)


@cache
def _alerts(rules: tuple[AlertRule, ...], webhook: str | None, prometheus: PrometheusSpec | None) -> Alerts:
    from hotloop.trace.alerts.alert import Sink
    from hotloop.trace.alerts.alerts import Alerts
    from hotloop.trace.alerts.webhook import Webhook

    sinks: list[Sink] = []
    if webhook is not None:
        sinks.append(Webhook(webhook))
    if prometheus is not None:
        sinks.append(_prometheus(prometheus))
    return Alerts(rules, sinks)
