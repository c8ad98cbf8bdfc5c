"""What the executor costs a call, in CPU: a call all the way through it, less the same function called directly."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from statistics import median
from typing import Annotated, Any

from experiments import Progress
from figures import at_most, interval, show
from msgspec import Meta

from hotloop import tool
from hotloop.budget import Deadline
from hotloop.context.conversation import Conversation
from hotloop.models.reply import Call
from hotloop.tools.running.caller import Caller
from hotloop.tools.running.executor import Executor, ToolPolicy
from hotloop.tools.running.job import RunContext
from hotloop.trace.ledger import Ledger
from hotloop.units import clock

ROUNDS, CALLS = 30, 480
GRANTS = frozenset({"orders"})
GUARD = {"requires": ("orders",), "allow": {"order_id": re.compile("[0-9]{8}")}}
KEPT = {"read_only": True, "ttl": 60.0}
MOST = at_most(30, "µs")


@dataclass
class Case:
    """CPU a call through the executor and directly, in µs; `figures[i]` right before `others[i]`."""

    name: str
    options: dict[str, Any]
    in_a_reply: int = 1
    is_bounded: bool = False
    figures: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)

    @property
    def overhead(self) -> list[float]:
        """What the executor adds, round by round."""
        return [figure - other for figure, other in zip(self.figures, self.others, strict=True)]

    @property
    def met(self) -> bool | None:
        """Whether the bound is met, if there is one."""
        return MOST.holds(median(self.overhead)) if self.is_bounded else None

    def cells(self) -> list[str]:
        """A line of the table."""
        low, high = interval(self.overhead)
        times = [f"{show(median(values))} µs" for values in (self.figures, self.others)]
        verdict = {True: [MOST.text, "met"], False: [MOST.text, "NOT MET"], None: ["", ""]}[self.met]
        return [self.name, *times, "", f"{show(median(self.overhead))} µs", f"{show(low)} .. {show(high)}", *verdict]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        low, high = interval(self.overhead)
        cpu = {"executor_us": median(self.figures), "directly_us": median(self.others)}
        return {
            "name": self.name,
            **cpu,
            "overhead_us": median(self.overhead),
            "low": low,
            "high": high,
            "met": self.met,
        }


HEADING = ["CPU a call", "executor", "directly", "", "overhead", "95 % interval", "bound", ""]


def cases() -> list[Case]:
    """What is measured: what the checks cost one by one, and what other calls in the same reply cost."""
    return [
        Case("validated", {}),
        Case("validated, guarded", GUARD),
        Case("validated, cached miss", KEPT),
        Case("validated, guarded, cached miss", GUARD | KEPT, is_bounded=True),
        Case("validated, 2 in a reply", {}, 2),
        Case("validated, 8 in a reply", {}, 8),
        Case("validated, guarded, cached miss, 2 in a reply", GUARD | KEPT, 2),
        Case("validated, guarded, cached miss, 8 in a reply", GUARD | KEPT, 8),
    ]


async def measure(progress: Progress) -> list[Case]:
    """All cases in turns, round after round; one round more is run first and not counted."""
    measured, numbers = cases(), count()
    executors = [Executor([tool(look_up, **case.options)], ToolPolicy()) for case in measured]
    for number in range(ROUNDS + 1):
        progress(f"CPU a call, round {number} of {ROUNDS}")
        for case, executor in zip(measured, executors, strict=True):
            figure = await _through(executor, case.in_a_reply, numbers)
            other = await _directly(numbers)
            if number:
                case.figures.append(figure)
                case.others.append(other)
    return measured


async def look_up(order_id: Annotated[str, Meta(pattern="^[0-9]{8}$")]) -> dict[str, Any]:
    """Look up an order.

    Args:
        order_id: Its number.
    """
    return {"order_id": order_id, "status": "shipped", "items": 3}


async def _through(executor: Executor, in_a_reply: int, numbers: Iterator[int]) -> float:
    """µs of CPU a call, no two of them the same."""
    ledger = Ledger(clock(), "benchmark")
    caller = Caller("benchmark", grants=GRANTS)
    run = RunContext(ledger, lambda events, throttle=None: None, Deadline(None, 0), caller, Conversation())
    calls = [Call("look_up", f'{{"order_id":"{next(numbers):08d}"}}') for _ in range(CALLS)]
    replies = [calls[first : first + in_a_reply] for first in range(0, CALLS, in_a_reply)]
    started = time.process_time()
    for reply in replies:
        batch = executor.begin(run)
        batch.complete(reply)
        await batch.run()
    return (time.process_time() - started) / CALLS * 1e6


async def _directly(numbers: Iterator[int]) -> float:
    arguments = [{"order_id": f"{next(numbers):08d}"} for _ in range(CALLS)]
    started = time.process_time()
    for each in arguments:
        await look_up(**each)
    return (time.process_time() - started) / CALLS * 1e6
