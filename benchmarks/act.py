"""What early, parallel, planned and cached tools bring, how near that is to what is possible, and what a call costs.

    python benchmarks/act.py

Five agents (scenarios.py) on two simulated services, a slow chip and a fast one; each time next to the critical path
(bound.py), which is what the service's tokens and the tools would take if nothing else took any time. Then the CPU that
the executor adds to a call (percall.py). docs/benchmarks.md says what each line means. Takes a minute. Exit code 0:
every bound is met. 1: one is not. 2: no figures, and why.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import percall
from bound import MODES, Mode, least_seconds
from experiments import Progress
from figures import table
from overhead import machine, show_progress
from platforms import CLIENT_CPU, loop_factory, pin
from processes import Unusable
from scenarios import SCENARIOS, Scenario

from hotloop import Agent
from hotloop.commands.comparison import GPU, LPU, Service
from hotloop.errors import HotloopError
from hotloop.models.transport import Transport
from hotloop.testing import ScriptedModel, SimulatedService, run_virtual
from hotloop.units import NS_PER_MS, clock

SERVICES = [GPU, LPU]
ROUNDS = 5
MOST = 1.05
EXACT = 0.001  # ms


@dataclass
class Cell:
    """A scenario in one mode on one service; ms: the least possible, what the virtual clock says, and of real runs."""

    scenario: Scenario
    service: Service
    mode: Mode
    least: float
    virtual: float
    walls: list[float] = field(default_factory=list)

    @property
    def wall(self) -> float:
        """Median real time."""
        return median(self.walls)

    @property
    def ratio(self) -> float:
        """How many times the least that is."""
        return self.wall / self.least

    @property
    def near(self) -> bool:
        """Whether that is near enough."""
        return self.ratio <= MOST

    @property
    def exact(self) -> bool:
        """Whether it is the least itself on the virtual clock, where code takes no time."""
        return abs(self.virtual - self.least) < EXACT

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = {"scenario": self.scenario.name, "service": self.service.name, "mode": self.mode.name}
        times = {"least_ms": self.least, "virtual_ms": self.virtual, "wall_ms": self.wall, "walls_ms": self.walls}
        return names | times | {"ratio": self.ratio, "near": self.near, "exact": self.exact}


@dataclass
class Line:
    """A scenario on a service, for the table: a column a mode."""

    of: list[Cell]

    def cells(self) -> list[str]:
        """The line as text."""
        times = {cell.mode: f"{cell.wall:,.0f}  {cell.ratio:.3f}" for cell in self.of}
        name = f"{self.of[0].scenario.name:14}{self.of[0].service.name}"
        return [name, *(_column(times.get(mode, "")) for mode in MODES)]


def _column(text: str) -> str:
    return text.rjust(13)


@dataclass
class Report:
    """All figures; `late` is the share of tokens that a service sent with a later one."""

    cells: list[Cell]
    late: float
    calls: list[percall.Case]

    @property
    def met(self) -> bool:
        """Whether every bound is met."""
        return all(cell.near and cell.exact for cell in self.cells) and all(
            case.met is not False for case in self.calls
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        scenarios = [cell.to_dict() for cell in self.cells]
        return {"late": self.late, "scenarios": scenarios, "calls": [case.to_dict() for case in self.calls]}


def virtual_cells() -> list[Cell]:
    """All there is to measure, with what can be known without waiting."""
    return [
        Cell(scenario, service, mode, least_seconds(scenario, mode, service) * 1e3, _virtual(scenario, service, mode))
        for service in SERVICES
        for scenario in SCENARIOS
        for mode in MODES
        if scenario.plan or not mode.planned
    ]


def _virtual(scenario: Scenario, service: Service, mode: Mode) -> float:
    model = ScriptedModel(scenario.script(), ttft=service.ttft, tpot=service.tpot)

    async def run() -> float:
        async with agent_of(scenario, mode, model) as agent:
            await prepare(agent, scenario, mode)
            return await timed_run(agent, scenario, mode)

    return run_virtual(run())


def agent_of(scenario: Scenario, mode: Mode, endpoint: str | Transport) -> Agent:
    """The scenario's agent, run in this mode."""
    options: dict[str, Any] = {"max_parallel": scenario.max_parallel} | mode.options
    return Agent(model="simulated", endpoint=endpoint, tools=scenario.tools, **options)


async def prepare(agent: Agent, scenario: Scenario, mode: Mode) -> None:
    """Connect, and fill the cache if there is one."""
    await agent.warm()
    if mode.cached:
        await agent.run(scenario.question)


async def timed_run(agent: Agent, scenario: Scenario, mode: Mode) -> float:
    """Milliseconds of a run. Raises Unusable for a wrong answer, or if something else came of a call than had to."""
    now = clock()
    started = now()
    result = await agent.run(scenario.question)
    elapsed = (now() - started) / NS_PER_MS
    came = [call.outcome for turn in result.trace.turns for call in turn.calls]
    expected = [ask.outcome(mode.cached) for turn in scenario.turns(mode.planned) for ask in turn.asks]
    if (result.output, came) != (scenario.answer, expected):
        raise Unusable(f"{scenario.name}, {mode.name}: {came} and {result.output!r}, not {expected} and the answer")
    return elapsed


async def measure_all(cells: list[Cell], progress: Progress) -> float:
    """Real runs of all scenarios on all services side by side; the share of tokens that the services sent late."""
    by_scenario: dict[str, list[list[Cell]]] = {}
    for line in lines(cells):
        by_scenario.setdefault(line.of[0].scenario.name, []).append(line.of)
    counts = await asyncio.gather(*(_measure_in_turn(each, progress) for each in by_scenario.values()))
    return sum(late for _, late in counts) / sum(sent for sent, _ in counts)


async def _measure_in_turn(services: list[list[Cell]], progress: Progress) -> tuple[int, int]:
    """One service after the other: both would write the same resources, and drop what the other's cache has read."""
    counts = [await _measure(cells, progress) for cells in services]
    return sum(sent for sent, _ in counts), sum(late for _, late in counts)


async def _measure(cells: list[Cell], progress: Progress) -> tuple[int, int]:
    """Runs of a scenario on a service, in each mode in turn; how many tokens the service sent, and how many late."""
    scenario, service = cells[0].scenario, cells[0].service
    async with AsyncExitStack() as stack:
        model = SimulatedService(scenario.script(), ttft=service.ttft, tpot=service.tpot)
        await stack.enter_async_context(model)
        agents = [await stack.enter_async_context(agent_of(scenario, cell.mode, model.url)) for cell in cells]
        for cell, agent in zip(cells, agents, strict=True):
            await prepare(agent, scenario, cell.mode)
        for number in range(ROUNDS):
            progress(f"{scenario.name} on {service.name}, round {number} of {ROUNDS}")
            for cell, agent in zip(cells, agents, strict=True):
                if cell.mode.cached:  # the other modes' writers have dropped what was kept
                    await agent.run(scenario.question)
                cell.walls.append(await timed_run(agent, scenario, cell.mode))
        return model.stats.tokens, model.stats.late_tokens


def lines(cells: list[Cell]) -> list[Line]:
    """The cells by scenario and service."""
    by_line: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        by_line.setdefault((cell.service.name, cell.scenario.name), []).append(cell)
    return [Line(of) for of in by_line.values()]


def measure(progress: Progress) -> Report:
    """Everything."""
    cells = virtual_cells()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        late = runner.run(measure_all(cells, progress))
        pin(CLIENT_CPU)
        return Report(cells, late, runner.run(percall.measure(progress)))


def show(report: Report) -> None:
    """Print the tables for a person."""
    about = machine()
    print(
        f"hotloop {about['hotloop']}, {about['python']}, {about['loop']}, {about['platform']}, {about['cores']} cores\n"
    )
    print(f"ms end to end, the median of {ROUNDS} runs, and how many times the least that is possible in that mode:\n")
    print(table(["", *(_column(mode.name) for mode in MODES)], lines(report.cells)))
    print(f"\nat most {MOST} times the least: {_verdict([cell.near for cell in report.cells])}")
    print(f"on the virtual clock the least itself: {_verdict([cell.exact for cell in report.cells])}")
    print(f"tokens that the services sent late: {report.late:.1%}\n")
    print(table(percall.HEADING, report.calls))


def _verdict(held: list[bool]) -> str:
    return f"{sum(held)} of {len(held)}, {'met' if all(held) else 'NOT MET'}"


def main() -> int:
    """Measure, print, and say by the exit code whether every bound is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", type=Path, help="write machine and figures to this file as well")
    asked = parser.parse_args()
    try:
        report = measure(show_progress)
    except (Unusable, HotloopError) as problem:
        print(f"\nno figures: {problem}", file=sys.stderr)
        return 2
    show_progress("")
    show(report)
    if asked.json:
        asked.json.write_text(json.dumps({"machine": machine()} | report.to_dict(), indent=2) + "\n")
    return 0 if report.met else 1


if __name__ == "__main__":
    sys.exit(main())
