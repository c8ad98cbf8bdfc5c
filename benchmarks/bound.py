"""The critical path of a run that costs nothing itself: the least time that its service, tools and rules allow.

Worked out from what a scenario says, with nothing of the executor in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heapreplace
from typing import Any

from scenarios import SECONDS, Scenario, Turn

from hotloop.commands.comparison import Service
from hotloop.lab.render import render
from hotloop.lab.script import Reply


@dataclass(frozen=True, eq=False)
class Mode:
    """A way to run a scenario: the agent's options, and what follows from them for its critical path."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def early(self) -> bool:
        """Whether calls may begin while the model still writes: a reply that comes whole leaves no time for that."""
        return bool(self.options.get("stream", True))

    @property
    def planned(self) -> bool:
        """Whether the model may write a plan."""
        return bool(self.options.get("plan"))

    @property
    def cached(self) -> bool:
        """Whether results of the run before are kept."""
        return "tool_ttl" in self.options

    def places(self, scenario: Scenario) -> int:
        """How many tools may run at once."""
        return int(self.options.get("max_parallel", scenario.max_parallel))


MODES = [
    Mode("serial", {"stream": False, "max_parallel": 1}),
    Mode("parallel", {"stream": False}),
    Mode("eager"),
    Mode("planned", {"plan": True}),
    Mode("cached", {"tool_ttl": 600.0}),
]


def least_seconds(scenario: Scenario, mode: Mode, service: Service) -> float:
    """Seconds from the question to the last token of the answer."""
    return sum(_seconds(turn, mode, service, mode.places(scenario)) for turn in scenario.turns(mode.planned))


def _seconds(turn: Turn, mode: Mode, service: Service, places: int) -> float:
    """Seconds from a request until the reply is there and its calls have ended.

    A read-only call can start when it is complete, another when the reply is. Those that work take the places in the
    order in which they are written.
    """
    reply_end = _arrival(_tokens(turn.reply) - 1, service)
    free = [0.0] * places
    ends: list[float] = []
    for place, ask in enumerate(turn.asks):
        early = mode.early and ask.tool.read_only
        start = max([_sealed(turn, place, service) if early else reply_end, *(ends[first] for first in ask.waits)])
        if ask.outcome(mode.cached) == "ok":
            start = max(start, free[0])
            heapreplace(free, start + SECONDS[ask.tool.name])
            ends.append(start + SECONDS[ask.tool.name])
        else:
            ends.append(start)
    return max([reply_end, *ends])


def _sealed(turn: Turn, place: int, service: Service) -> float:
    """When a call can no longer change: with the first token of the next, or the last of all.

    A step of a plan cannot once it is closed.
    """
    tokens = _tokens(turn.begun(place + 1))
    return _arrival(tokens - 1 if turn.is_plan else min(tokens, _tokens(turn.reply) - 1), service)


def _arrival(token: int, service: Service) -> float:
    return service.ttft + token * service.tpot


def _tokens(reply: Reply) -> int:
    return len(render(reply, 0).tokens)
