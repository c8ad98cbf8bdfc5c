"""One agent on simulated services: what a faster chip brings, and what parallel tools bring."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec
from rich.table import Table

from hotloop.agent import Agent
from hotloop.lab.sim import SimulatedService
from hotloop.units import show_ms


class Service(NamedTuple):
    """A simulated service; times in seconds."""

    name: str
    ttft: float
    tpot: float


GPU = Service("GPU-like", ttft=0.060, tpot=0.020)
LPU = Service("LPU-like", ttft=0.020, tpot=0.002)
RUNS = 4

NOTE = (
    f"{GPU.name}: first token after {GPU.ttft * 1000:g} ms, then {GPU.tpot * 1000:g} ms a token. {LPU.name}: "
    f"{LPU.ttft * 1000:g} ms, then {LPU.tpot * 1000:g} ms. Both are simulated, on loopback sockets; agent, tools and "
    "runtime are real."
)

MakeAgent = Callable[[str, int], Agent]
"""An agent of this endpoint that runs at most so many tools at once."""


class Run(msgspec.Struct, frozen=True):
    """Where one run's time went, in milliseconds of its critical path."""

    service: str
    tool_calls: str
    model_ms: float
    tools_ms: float
    loop_ms: float
    end_to_end_ms: float


async def compare(make: MakeAgent, prompt: str, on_run: Callable[[], None]) -> list[Run]:
    """The same prompt on the GPU-like and the LPU-like service, on each with tools one by one, then in parallel.

    `on_run` is called after each of the four runs.
    """
    runs = []
    for service in (GPU, LPU):
        async with SimulatedService(ttft=service.ttft, tpot=service.tpot) as simulated:
            for tool_calls, most in (("serial", 1), ("parallel", 8)):
                runs.append(await _run(make(simulated.url, most), prompt, service.name, tool_calls))
                on_run()
    return runs


async def _run(agent: Agent, prompt: str, service: str, tool_calls: str) -> Run:
    async with agent:
        await agent.warm()
        trace = (await agent.run(prompt)).trace
    spent = {row.stage: row.actual_ms for row in trace.budget()}
    total = trace.end_to_end_ms
    loop = round(total - spent["model"] - spent["tools"], 3)
    return Run(service, tool_calls, spent["model"], spent["tools"], loop, total)


def comparison_table(runs: list[Run]) -> Table:
    """A line a run, with how many times as fast as the slowest it is."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0))
    table.add_column("service")
    table.add_column("tool calls")
    for heading in ("model", "tools", "hotloop", "end to end", "faster"):
        table.add_column(heading, justify="right")
    for run in runs:
        times = (run.model_ms, run.tools_ms, run.loop_ms, run.end_to_end_ms)
        table.add_row(run.service, run.tool_calls, *map(show_ms, times), f"{faster(run, runs):.1f}x")
    return table


def faster(run: Run, runs: list[Run]) -> float:
    """How many times as fast as the slowest of `runs` this one is."""
    return max(each.end_to_end_ms for each in runs) / run.end_to_end_ms


def conclusion(runs: list[Run]) -> str:
    """What the four runs of `compare` say, in a sentence."""
    slow, tools, chip, both = (run.end_to_end_ms for run in runs)
    last = runs[-1]
    return (
        f"The faster chip alone makes this agent {slow / chip:.1f} times as fast, parallel tools alone "
        f"{slow / tools:.1f} times, both together {slow / both:.1f} times; of what is left, "
        f"{last.tools_ms / both:.0%} is tools, {last.model_ms / both:.0%} the model and "
        f"{last.loop_ms / both:.1%} hotloop itself."
    )
