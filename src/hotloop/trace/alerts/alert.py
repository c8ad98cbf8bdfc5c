"""An alert, and where it may be told."""

from __future__ import annotations

import logging
from typing import Protocol

import msgspec

from hotloop.visible import one_line

_log = logging.getLogger("hotloop.alerts")


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that began to be broken, or no longer is (`began` is False).

    `of` is the tool, model or row of the budget that it is about, "" for the whole agent, and `owner` whose that is;
    `value` and `limit` are seconds, tokens, or shares, as the rule has them. `at` is Unix time in seconds, `lasted`
    seconds; `trace_id` is the run with which it came. `text` says it all in a sentence.
    """

    name: str
    agent: str
    of: str
    owner: str
    began: bool
    value: float | None
    limit: float
    at: float
    lasted: float = 0.0
    trace_id: str
    text: str


class Sink(Protocol):
    """Where alerts are told; `name` is what rules call it."""

    name: str

    def tell(self, alert: Alert) -> None:
        """Take an alert, soon: called in the recording thread."""

    def close(self) -> None:
        """Nothing more will come."""


class LogSink:
    """Tells alerts to the logger "hotloop.alerts": as a warning when it begins, as information when it is over."""

    name = "log"

    def tell(self, alert: Alert) -> None:
        """See `Sink`."""
        _log.log(logging.WARNING if alert.began else logging.INFO, "%s", one_line(alert.text))

    def close(self) -> None:
        """See `Sink`."""
