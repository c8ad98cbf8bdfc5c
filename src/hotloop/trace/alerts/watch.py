"""One rule at work: its figure for each tool, model or row, and the alerts that come of it."""

from __future__ import annotations

from collections.abc import Iterator

from hotloop.trace.alerts.alert import Alert
from hotloop.trace.alerts.figure import Figure
from hotloop.trace.alerts.rule import AlertRule
from hotloop.trace.alerts.signals import SIGNALS
from hotloop.trace.measured import Measured
from hotloop.units import NS_PER_S, show_span
from hotloop.words import counted

_MOST = 50  # figures of one rule


class Watch:
    """A rule, with a figure for each tool, model or row of each agent that it is about, for the first fifty of them."""

    def __init__(self, rule: AlertRule) -> None:
        self.rule = rule
        self._signal = SIGNALS[rule.when]
        self._figures: dict[tuple[str, str], Figure] = {}

    def see(self, run: Measured) -> Iterator[Alert]:
        """The alerts that begin, or are over, with this run."""
        agent = run.record.name
        for reading in self._signal.read(run, self.rule):
            if self.rule.about in (None, reading.of) and (figure := self._figure(agent, reading.of)) is not None:
                figure.add(run.ended, reading)
        for (whose, of), figure in self._figures.items():
            if whose == agent:
                yield from self._alerts(run, of, figure)

    def _figure(self, agent: str, of: str) -> Figure | None:
        if (agent, of) not in self._figures:
            if len(self._figures) == _MOST:
                return None
            self._figures[agent, of] = Figure(self.rule, self._signal)
        return self._figures[agent, of]

    def _alerts(self, run: Measured, of: str, figure: Figure) -> Iterator[Alert]:
        """The alert that a figure gives cause for, if any."""
        before, value = figure.since, figure.value(run.ended)
        if figure.turns(value, run.ended):
            lasted = 0.0 if before is None else run.ended - before
            yield self._alert(run, of, value, figure, lasted)

    def _alert(self, run: Measured, of: str, value: float | None, figure: Figure, lasted: float) -> Alert:
        assert figure.limit is not None  # for it is over it, or was
        began = figure.since is not None
        return Alert(
            name=self.rule.name or self.rule.when,
            agent=run.record.name,
            of=of,
            owner=self._signal.owner(run.record.declared.owners, of),
            began=began,
            value=value,
            limit=figure.limit,
            at=run.ended,
            lasted=lasted,
            trace_id=run.record.trace_id,
            text=f"{run.record.name or 'agent'}: {self._told(of, value)}{self._compared(figure, began, lasted)}",
        )

    def _told(self, of: str, value: float | None) -> str:
        shown = "no longer seen" if value is None else self._signal.show(value, self.rule)
        return self._signal.told.format(of=of or "the model", value=shown)

    def _compared(self, figure: Figure, began: bool, lasted: float) -> str:
        limit = self._signal.show(figure.limit or 0.0, self.rule)
        if began:
            return f", over {limit} ({counted(len(figure), 'value')} in {_span(self.rule.window)})."
        return f" now; it was over {limit} for {_span(lasted)}."


def _span(seconds: float) -> str:
    return show_span(round(seconds * NS_PER_S))
