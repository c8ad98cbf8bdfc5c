"""The diagnosis of recorded runs."""

from __future__ import annotations

from collections.abc import Iterable

from hotloop.insight.doctor.case import Case
from hotloop.insight.doctor.finding import Finding
from hotloop.insight.doctor.measures import measure
from hotloop.insight.doctor.rules import RULES
from hotloop.trace.record import TraceRecord


def diagnose(records: Iterable[TraceRecord]) -> list[Finding]:
    """What is wrong with these runs, in the order in which a person would look; nothing if there are none.

    Runs of one agent tell the most; those of several are judged as if they were one. What a record does not tell is no
    fault.
    """
    runs = [measure(record) for record in records]
    case = Case(runs)
    return [found for rule in RULES if (found := rule.judge(case)) is not None] if runs else []
