"""What was found wrong with runs: what was seen, what it costs, and what to do about it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from hotloop.units import show_ms
from hotloop.visible import one_line

Area = Literal["whole", "model", "tools", "context", "network", "capacity"]


class Costs(msgspec.Struct, frozen=True):
    """Milliseconds a run on the critical path, over all runs that were looked at, and the share of all their time."""

    p50_ms: float = 0.0
    p95_ms: float = 0.0
    share: float = 0.0


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One fault. `rule` names its kind, `area` where to look.

    It was seen in `hits` of `runs` runs, most of all in the one with the trace id `example`; `figures` are numbers that
    `saw` tells in words. What to `do` is a setting of hotloop, or advice where another framework ran the agent.
    """

    rule: str
    area: Area
    title: str
    saw: str
    costs: Costs
    do: str
    hits: int
    runs: int
    example: str
    figures: dict[str, float] = {}

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return msgspec.to_builtins(self)  # type: ignore[no-any-return]


def finding_lines(finding: Finding) -> list[str]:
    """A finding for a person: what it is, then what was seen, what it costs and what to do, a line each."""
    costs = finding.costs
    told = f"{show_ms(costs.p50_ms)} a run at p50, {show_ms(costs.p95_ms)} at p95: {costs.share:.0%} of all time"
    seen = f"{finding.saw} ({finding.hits:,} of {finding.runs:,} runs, such as {finding.example})"
    return [
        f"{finding.area}: {finding.title} [{finding.rule}]",
        f"  saw    {one_line(seen)}",
        f"  costs  {told if costs.share else 'no time that can be told from the trace'}",
        f"  do     {one_line(finding.do)}",
    ]
