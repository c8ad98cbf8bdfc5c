"""What a rule is: where it looks, what it looks for, and what is to be done about what it finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from hotloop.insight.doctor.case import Case
from hotloop.insight.doctor.finding import Area, Finding


class Seen(msgspec.Struct, frozen=True):
    """What a rule has seen, in words and `figures`: what it costs in each run (ns), and which runs it is in."""

    saw: str
    costs: Sequence[float]
    hits: Sequence[bool]
    figures: dict[str, float] = {}


class Rule(msgspec.Struct, frozen=True):
    """A kind of fault: `look` says what there is of it. What to `do` is for runs of hotloop, `otherwise` for others."""

    name: str
    area: Area
    title: str
    look: Callable[[Case], Seen | None]
    do: str
    otherwise: str

    def judge(self, case: Case) -> Finding | None:
        """The finding, if there is anything to be seen."""
        seen = self.look(case)
        if seen is None:
            return None
        worst = max(range(len(seen.costs)), key=lambda place: (seen.hits[place], seen.costs[place]))
        return Finding(
            rule=self.name,
            area=self.area,
            title=self.title,
            saw=seen.saw,
            costs=case.sum_up(seen.costs),
            do=self.do if case.ours else self.otherwise,
            hits=sum(seen.hits),
            runs=len(case.runs),
            example=case.runs[worst].record.trace_id,
            figures=seen.figures,
        )
