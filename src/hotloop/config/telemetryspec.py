"""Where runs are told beside the store of traces, declared."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import msgspec

from hotloop.trace.otel.exporter import OTelExporter, OTelOptions

if TYPE_CHECKING:
    from hotloop.trace.recorder import Exporter


class TelemetrySpec(msgspec.Struct, frozen=True, kw_only=True):
    """Where runs are told: `otel` says how to OpenTelemetry, true as its variables say; see `hotloop.OTelExporter`."""

    otel: OTelOptions | bool = False

    def exporters(self) -> list[Exporter]:
        """What it declares; agents that declare the same share it. Raises ConfigError for what is not installed."""
        otel = OTelOptions() if self.otel is True else self.otel
        return [_otel(msgspec.json.encode(otel))] if otel else []


@cache
def _otel(options: bytes) -> OTelExporter:
    return OTelExporter(**msgspec.json.decode(options))
