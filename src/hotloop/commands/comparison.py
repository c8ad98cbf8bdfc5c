"""One agent on simulated services: what a faster chip, parallel tools and an early start of them bring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from rich.table import Table

from hotloop.agent import Agent
from hotloop.lab.sim import SimulatedService
from hotloop.trace.rows import ROWS
from hotloop.units import NS_PER_MS, show_ms


class Service(NamedTuple):
    """A simulated service; times in seconds."""

    name: str
    ttft: float
    tpot: float


GPU = Service("GPU-like", ttft=0.060, tpot=0.020)
LPU = Service("LPU-like", ttft=0.020, tpot=0.002)
WAYS: dict[str, dict[str, Any]] = {
    "serial": {"stream": False, "max_parallel": 1},
    "parallel": {"stream": False},
    "early": {},
}
RUNS = 2 * len(WAYS)

NOTE = f"""\
serial: tools run one after the other, once the reply is complete
parallel: side by side, once the reply is complete
early: side by side, each as soon as the model has written its call
model: the time in which it was at work; tools: what they add to that

{GPU.name}: first token after {GPU.ttft * 1000:g} ms, then {GPU.tpot * 1000:g} ms a token. {LPU.name}: \
{LPU.ttft * 1000:g} ms, then {LPU.tpot * 1000:g} ms. Both are simulated, on loopback sockets; they call the slower \
tool first. Agent, tools and runtime are real."""

MakeAgent = Callable[..., Agent]
"""An agent of this endpoint, with options of Agent by name."""


class Run(msgspec.Struct, frozen=True):
    """Where one run's time went, in milliseconds that add up: the model at work, what tools add to that, the rest."""

    service: str
    tool_calls: str
    model_ms: float
    tools_ms: float
    loop_ms: float
    end_to_end_ms: float


async def compare(make: MakeAgent, prompt: str, on_run: Callable[[], None]) -> list[Run]:
    """The same prompt on the GPU-like and the LPU-like service, on each in all `WAYS` to run tools.

    `on_run` is called after each of the `RUNS` runs.
    """
    runs = []
    for service in (GPU, LPU):
        async with SimulatedService(ttft=service.ttft, tpot=service.tpot) as simulated:
            for tool_calls, options in WAYS.items():
                runs.append(await _run(make(simulated.url, **options), prompt, service.name, tool_calls))
                on_run()
    return runs


async def _run(agent: Agent, prompt: str, service: str, tool_calls: str) -> Run:
    async with agent:
        await agent.warm()
        trace = (await agent.run(prompt)).trace
    spent = {row.stage: row.actual_ms for row in trace.budget()}
    total = trace.end_to_end_ms
    # The critical path gives a moment in which model and tool were at work to the tool, which here is the model's.
    model = sum((stage.end - stage.start) / NS_PER_MS for stage in trace.stages if stage.kind in ROWS["model"])
    tools = spent["model"] + spent["tools"] - model
    return Run(service, tool_calls, *(round(each, 3) for each in (model, tools, total - model - tools, total)))


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
    """What the runs of `compare` say, in a sentence."""
    ways = len(WAYS)
    slow, tools, chip, both = (runs[place].end_to_end_ms for place in (0, ways - 1, ways, -1))
    last = runs[-1]
    return (
        f"The faster chip alone makes this agent {slow / chip:.1f} times as fast, parallel tools that start early "
        f"alone {slow / tools:.1f} times, both together {slow / both:.1f} times; of what is left, "
        f"{last.tools_ms / both:.0%} is tools, {last.model_ms / both:.0%} the model and "
        f"{last.loop_ms / both:.1%} hotloop itself."
    )
