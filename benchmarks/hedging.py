"""What a second request beside a slow one saves, and what it costs: the same runs with hedging off and on.

    python benchmarks/hedging.py                 on the virtual clock, where every figure is exact, and over sockets
    python benchmarks/hedging.py --json FILE     the figures into this file as well

The service lets 3 % of requests wait ten times as long for their first token. Another one takes five times as long for
everything from some moment on: there a second request helps nobody, so hardly any may be sent. Takes a minute. Exit
code 0: with stragglers p99 is at most half of what it is without, for at most 6 % more requests, and a service that is
slow as a whole gets no more than a handful more. 1: that does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from overhead import machine
from platforms import loop_factory

from hotloop import Agent, Model, Policy
from hotloop.events import TextDelta
from hotloop.lab.profiles import Curve, Profile
from hotloop.lab.simtransport import SimulatedTransport
from hotloop.models.transport import Receiver, Transport
from hotloop.testing import SimulatedService, run_virtual
from hotloop.trace.stats import percentile
from hotloop.units import NS_PER_MS, clock, show_ms

RUNS = 4_000
SLOW_RUNS = 100
WORKERS = 16  # runs at once
SEED = 1
STRAGGLERS = "slow*10:3%"
SLOWER = 5
LEAST_GAIN = 2.0
MOST_MORE = 0.06
HANDFUL = 10
ANSWER = "It was shipped on Monday and will be with you on Thursday."
USUAL = Profile(name="usual", kind="lpu", base_ms=100, per_prompt_token_ms=0, tpot_ms=Curve(5), queue_sigma=0.15)
QUICK = Profile(name="quick", kind="lpu", base_ms=50, per_prompt_token_ms=0, tpot_ms=Curve(1), queue_sigma=0.15)


@dataclass
class Runs:
    """Runs against one service: how long they and their first tokens took, in ms, and how many requests were sent."""

    name: str
    took: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    requests: int = 0

    @property
    def more(self) -> int:
        """How many requests more than runs."""
        return self.requests - len(self.took)

    @property
    def p99(self) -> float:
        """Of the runs' times."""
        return percentile(self.took, 99)

    def line(self) -> str:
        """As a line of the table under `HEAD`."""
        times = [show_ms(percentile(each, at)) for each in (self.took, self.first) for at in (50, 95, 99)]
        shown = "".join(f"{each:>11}" for each in times)
        return f"{self.name:26}{shown}{self.requests:>10,}{self.more / len(self.took):>8.1%}"

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        times = {"run_ms": self.took, "ttft_ms": self.first}
        quantiles = {name: {f"p{at}": percentile(each, at) for at in (50, 95, 99)} for name, each in times.items()}
        return {"name": self.name, "runs": len(self.took), "requests": self.requests, "more": self.more, **quantiles}


HEAD = f"{'':26}" + "".join(f"{each:>11}" for each in ("run p50", "p95", "p99", "TTFT p50", "p95", "p99"))
HEAD += f"{'requests':>10}{'more':>8}"


class Switch:
    """A `Transport` that passes requests on to one that can be exchanged."""

    def __init__(self, to: Transport) -> None:
        self.to = to

    async def send(self, body: bytes, receiver: Receiver) -> None:
        """See `Transport`."""
        await self.to.send(body, receiver)

    async def warm(self, connections: int = 1) -> None:
        """Nothing to prepare."""

    async def aclose(self) -> None:
        """Nothing to close."""


async def asked(agent: Agent, into: Runs) -> None:
    """One run."""
    now = clock()
    start, first = now(), 0
    async for event in agent.stream("Where is my order?"):
        if not first and isinstance(event, TextDelta):
            first = now()
    into.took.append((now() - start) / NS_PER_MS)
    into.first.append((first - start) / NS_PER_MS)


async def many(agent: Agent, into: Runs, runs: int) -> None:
    """So many runs, a few at once."""
    left = iter(range(runs))

    async def work() -> None:
        for _ in left:
            await asked(agent, into)

    await asyncio.gather(*(work() for _ in range(WORKERS)))


def agent_of(endpoint: str | Transport, hedge: bool) -> Agent:
    return Agent(model=Model(name="simulated", endpoint=endpoint, policy=Policy(hedge=hedge)))


async def in_process(hedge: bool, runs: int) -> Runs:
    """With stragglers, on a service inside the process."""
    found = Runs(f"hedging {'on' if hedge else 'off'}")
    service = SimulatedTransport([ANSWER], profile=USUAL, faults=STRAGGLERS, seed=SEED)
    await many(agent_of(service, hedge), found, runs)
    found.requests = service.stats.requests
    return found


async def over_sockets(hedge: bool, runs: int) -> Runs:
    """With stragglers, on a quicker service behind a socket."""
    found = Runs(f"hedging {'on' if hedge else 'off'}")
    async with SimulatedService([ANSWER], profile=QUICK, faults=STRAGGLERS, seed=SEED) as service:
        async with agent_of(service.url, hedge) as agent:
            await agent.warm(WORKERS)
            await many(agent, found, runs)
        found.requests = service.stats.requests
    return found


async def slowed_down(hedge: bool, runs: int) -> list[Runs]:
    """Without stragglers, on a service that becomes slow as a whole."""
    slower = msgspec.structs.replace(USUAL, base_ms=SLOWER * USUAL.base_ms, tpot_ms=Curve(SLOWER * USUAL.tpot_ms.a))
    found, switch = [], Switch(SimulatedTransport())
    agent = agent_of(switch, hedge)
    for name, profile, count in (("as usual", USUAL, runs), (f"{SLOWER} times as slow", slower, SLOW_RUNS)):
        service = switch.to = SimulatedTransport([ANSWER], profile=profile, seed=SEED)
        found.append(Runs(f"{name}, hedging {'on' if hedge else 'off'}"))
        await many(agent, found[-1], count)
        found[-1].requests = service.stats.requests
    return found


def gain(off: Runs, on: Runs) -> float:
    """How many times as long p99 is without."""
    return off.p99 / on.p99


def problems(where: str, off: Runs, on: Runs) -> list[str]:
    """What of a service with stragglers does not hold, as sentences."""
    found = []
    if gain(off, on) < LEAST_GAIN:
        found.append(
            f"{where}: p99 without hedging is {gain(off, on):.2f} times p99 with it, less than {LEAST_GAIN:g}."
        )
    if on.more > MOST_MORE * len(on.took):
        found.append(f"{where}: {on.more / len(on.took):.1%} more requests were sent, more than {MOST_MORE:.0%}.")
    return found


def show(where: str, rows: list[Runs]) -> None:
    """A table."""
    print(f"\n{where}\n\n{HEAD}")
    for row in rows:
        print(row.line())


def main() -> int:
    """Measure, print, and say by the exit code whether everything holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", metavar="N", type=int, default=RUNS, help=f"how many in each row ({RUNS:,})")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write machine and figures to this file as well")
    given = parser.parse_args()
    exact = [run_virtual(in_process(hedge, given.runs)) for hedge in (False, True)]
    slow = [each for hedge in (False, True) for each in run_virtual(slowed_down(hedge, given.runs))]
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        real = [runner.run(over_sockets(hedge, given.runs)) for hedge in (False, True)]
    found = []
    for where, rows in (("on the virtual clock", exact), ("over sockets", real)):
        show(f"3 % of requests wait ten times as long, {where}", rows)
        print(f"p99 without hedging is {gain(*rows):.1f} times p99 with it")
        found += problems(where, *rows)
    show("A service that becomes slow as a whole, on the virtual clock", slow)
    if slow[-1].more > HANDFUL:
        found.append(f"A slow service was sent {slow[-1].more} more requests; {HANDFUL} would be a handful.")
    print("\n" + ("\n".join(f"DOES NOT HOLD: {each}" for each in found) or "all of it holds"))
    if given.json:
        figures = {
            name: [each.to_dict() for each in rows]
            for name, rows in (("exact", exact), ("sockets", real), ("slow", slow))
        }
        given.json.write_text(json.dumps({"machine": machine(), **figures}, indent=2) + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
