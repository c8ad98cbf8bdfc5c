"""An exporter that holds runs against rules, and tells when one begins to be broken, and when it no longer is."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from hotloop.fields import require
from hotloop.trace.alerts.alert import Alert, LogSink, Sink
from hotloop.trace.alerts.rule import AlertRule
from hotloop.trace.alerts.watch import Watch
from hotloop.trace.measured import Measured
from hotloop.trace.record import TraceRecord
from hotloop.words import listed

_log = logging.getLogger("hotloop.alerts")


class Alerts:
    """An `Exporter` that tells alerts by these `rules`: to the log, and `to` these other places, such as a `Webhook`.

    Raises ConfigError for a rule that is told at a place that there is not, and for rules or places that cannot be told
    from each other.
    """

    def __init__(self, rules: Sequence[AlertRule], to: Sequence[Sink] = ()) -> None:
        self._watches = [Watch(rule) for rule in rules]
        sinks: list[Sink] = [LogSink(), *to]
        self._sinks = {sink.name: sink for sink in sinks}
        for sink in sinks:
            alone = sum(other.name == sink.name for other in sinks) == 1
            require(
                alone, f"There are several places named {sink.name} that alerts are told at; give one another name."
            )
        names = [(rule.name or rule.when, rule.about) for rule in rules]
        for rule, name in zip(rules, names, strict=True):
            require(names.count(name) == 1, f"There are several rules {name[0]}; give one another name.")
            for place in rule.to:
                there = f"The rule {name[0]} is told to {place}; there are {listed(place, self._sinks)}."
                require(place in self._sinks, there)

    def export(self, records: Sequence[TraceRecord]) -> None:
        """See `hotloop.trace.recording.recorder.Exporter`."""
        for record in records:
            run = Measured(record)
            for watch in self._watches:
                for alert in watch.see(run):
                    self._tell(alert, watch.rule.to or tuple(self._sinks))

    def close(self) -> None:
        """See `hotloop.trace.recording.recorder.Exporter`."""
        for sink in self._sinks.values():
            sink.close()

    def _tell(self, alert: Alert, places: Sequence[str]) -> None:
        for place in places:
            try:
                self._sinks[place].tell(alert)
            except Exception as error:  # a place is anybody's code, and the others are to hear of it all the same
                _log.warning("An alert could not be told to %s: %s", place, error)
