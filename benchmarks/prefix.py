"""What reading results ahead brings while tools run: the next turn's first token, with and without, and what it costs.

    python benchmarks/prefix.py            simulated services, in virtual time: a few seconds
    python benchmarks/prefix.py --local    the embedded model, for real: two minutes on an idle machine

Each agent makes two calls at once, or one, and then answers. "ttft" is the time to the first token of that answer, the
median of runs once the service and the tools are known; "read" are the prompt tokens that the service had to read for
a run, "sent" all that were in its requests, which is what is paid for where cached tokens cost as much as others.
docs/prefix.md says what to make of it. Exit code 0: where it should bring nothing it takes nothing, and where a long
result comes early it pays. 1: not so. 2: no figures, and why.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from figures import table
from processes import Unusable

from hotloop import Agent, Trace, tool
from hotloop.errors import HotloopError
from hotloop.lab.profiles import Curve, Profile
from hotloop.lab.profiletable import PROFILES
from hotloop.lab.simtransport import SimulatedTransport
from hotloop.testing import call, run_virtual
from hotloop.tools.defining.tool import Tool

ONE_SLOT = Profile(
    name="one slot, 3 ms a prompt token",
    kind="gpu",
    base_ms=5.0,
    per_prompt_token_ms=3.0,
    tpot_ms=Curve(30.0),
    slots=1,
    cache_block=1,
    dialect="llamacpp",
    reports=True,
)
GPUS = [PROFILES["gpu-h100x2-llama70b-fp8"], PROFILES["gpu-h100-llama8b"]]
WITHOUT, LEARNING, WITH, LOCAL = 12, 10, 24, 16  # runs
HARM, JITTER = 1.02, 2.0  # times the first token without, and ms, are the most where nothing can be won


@dataclass(frozen=True)
class Work:
    """A tool that is called: the seconds it takes and about the tokens of its result."""

    name: str
    seconds: float
    tokens: int


@dataclass(frozen=True)
class Scenario:
    """What a reply calls, in this order; `pays` tells whether reading ahead ought to help."""

    name: str
    works: tuple[Work, ...]
    pays: bool


@dataclass(frozen=True)
class Figures:
    """Medians of runs: milliseconds, and tokens of a run."""

    ttft: float
    end_to_end: float
    read: float
    sent: float
    prefills: float


@dataclass(frozen=True)
class Line:
    """A scenario at a service, without and with."""

    scenario: str
    service: str
    pays: bool
    without: Figures
    ahead: Figures

    @property
    def held(self) -> bool:
        """Whether it did what it should."""
        without, ahead = self.without.ttft, self.ahead.ttft
        return ahead < 0.9 * without if self.pays else ahead <= HARM * without + JITTER

    def cells(self) -> list[str]:
        """The line as text."""
        pairs = [(getattr(self.without, name), getattr(self.ahead, name)) for name in ("ttft", "end_to_end")]
        times = [f"{was:,.0f} → {now:,.0f} ms" for was, now in pairs]
        tokens = [f"{getattr(each, name):,.0f}" for name in ("read", "sent") for each in (self.without, self.ahead)]
        more = f"{self.ahead.prefills:.1f}"
        return [self.scenario, self.service, *times, " → ".join(tokens[:2]), " → ".join(tokens[2:]), more]


def scenarios(long: int, slow: float, short: float) -> list[Scenario]:
    """With a long result of so many tokens, a tool of `slow` seconds and one that ends after `short`."""
    early = Work("search_archive", 0.05, long)
    return [
        Scenario("one short result", (Work("query_status", 0.2, 60),), pays=False),
        Scenario("long and early beside a slow tool", (early, Work("query_customs", slow, 20)), pays=True),
        Scenario("long and early, the other soon done", (early, Work("query_customs", short, 20)), pays=False),
        Scenario("long, but written after the slow one", (Work("query_customs", slow, 20), early), pays=False),
    ]


def tools_of(scenario: Scenario) -> list[Tool]:
    """The scenario's tools."""
    return [_tool(work) for work in scenario.works]


def _tool(work: Work) -> Tool:
    async def function(order_id: str) -> str:
        await asyncio.sleep(work.seconds)
        return f"{order_id}: " + "moved on. " * (work.tokens * 4 // 10)

    described = work.name.replace("_", " ") + " of an order"
    return tool(function, name=work.name, description=described, read_only=True)


def questions(scenario: Scenario) -> str:
    """What to ask so that these tools are called, also by a model that goes by words."""
    return (
        "What does " + " and ".join(work.name.replace("_", " ") for work in scenario.works) + " say of order 2025{:04}?"
    )


async def measured(agent: Agent, asked: str, runs: int, skip: int) -> Figures:
    """The agent's runs, without the first `skip`; every question is a new one."""
    async with agent:
        await agent.warm()
        prompts = map(asked.format, range(runs + skip))
        traces = [(await agent.run(prompt)).trace for prompt in prompts]
    return figures(traces[skip:])


def figures(traces: Sequence[Trace]) -> Figures:
    """The medians of these runs."""
    last = [trace.turns[-1] for trace in traces]
    counted = [_tokens(trace) for trace in traces]
    prefills = [sum(facts.why == "prefill" for facts in trace.attempts) for trace in traces]
    return Figures(
        ttft=median((facts.ttft or 0) / 1e6 for facts in last),
        end_to_end=median(trace.end_to_end_ms for trace in traces),
        read=median(read for read, _ in counted),
        sent=median(sent for _, sent in counted),
        prefills=sum(prefills) / len(traces),
    )


def _tokens(trace: Trace) -> tuple[int, int]:
    """Tokens of a run that its service had to read, and all in its requests; a cancelled one counts none."""
    sent = trace.usage.input_tokens or 0
    return sent - (trace.usage.cached_tokens or 0), sent


def simulated() -> list[Line]:
    """Every scenario at every simulated service."""
    gpus = [(profile, "vllm", each) for profile in GPUS for each in scenarios(3000, 1.0, 0.08)]
    one = [(ONE_SLOT, "llamacpp", each) for each in scenarios(3000, 12.0, 0.1)]
    return [run_virtual(_simulated(*each)) for each in (*gpus, *one)]


async def _simulated(profile: Profile, dialect: str, scenario: Scenario) -> Line:
    script = [[call(work.name, order_id="20250101") for work in scenario.works], "It has all been looked into."]

    def agent(speculate: bool) -> Agent:
        return Agent(
            model="m",
            endpoint=SimulatedTransport(script, profile=profile),
            dialect=dialect,
            instructions="You help. " * 200,
            tools=tools_of(scenario),
            speculate=speculate,
        )

    asked = questions(scenario)
    without = await measured(agent(False), asked, WITHOUT, 1)
    ahead = await measured(agent(True), asked, WITH, LEARNING)
    return Line(scenario.name, profile.name, scenario.pays, without, ahead)


async def local() -> list[Line]:
    """The embedded model, which reads so slowly that 300 tokens are long.

    Runs with and without take turns, so that whatever else this machine does slows both.
    """
    scenario = scenarios(300, 12.0, 0.3)[1]
    asked = questions(scenario)
    async with Agent(
        model="smollm2", endpoint="local", tools=tools_of(scenario), max_tokens=48, speculate=True
    ) as agent:
        await agent.warm()
        traces = [(await agent.run(asked.format(number))).trace for number in range(LOCAL)][1:]
    ahead = [trace for trace in traces if any(facts.why == "prefill" for facts in trace.attempts)]
    without = [trace for trace in traces if trace not in ahead]
    if not ahead:
        raise Unusable("this machine reads too slowly just now: nothing was read ahead")
    return [Line(scenario.name, "SmolLM2, embedded", scenario.pays, figures(without), figures(ahead))]


HEADING = ["scenario", "service", "ttft", "end to end", "read", "sent", "prefills a run"]


def main() -> int:
    """Measure, print, and say by the exit code whether it was as it should be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--local", action="store_true", help="the embedded model instead of simulated services")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures to this file as well")
    asked = parser.parse_args()
    try:
        lines = asyncio.run(local()) if asked.local else simulated()
    except (Unusable, HotloopError) as problem:
        print(f"no figures: {problem}", file=sys.stderr)
        return 2
    print(table(HEADING, lines, align=""))
    held = [line.held for line in lines]
    print(f"\nas it should be: {sum(held)} of {len(held)}, {'met' if all(held) else 'NOT MET'}")
    if asked.json:
        asked.json.write_text(json.dumps([asdict(line) | {"held": line.held} for line in lines], indent=2) + "\n")
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
