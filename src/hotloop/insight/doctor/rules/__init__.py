"""What may be wrong with runs, in the order in which a person would look."""

from __future__ import annotations

from collections.abc import Callable

from hotloop.insight.doctor.case import Case
from hotloop.insight.doctor.finding import Finding
from hotloop.insight.doctor.rules import capacity, context, model, network, tools, whole

Rule = Callable[[Case], Finding | None]

RULES: tuple[Rule, ...] = (
    *whole.RULES,
    *model.RULES,
    *tools.RULES,
    *context.RULES,
    *network.RULES,
    *capacity.RULES,
)
