"""Many runs against a service that does something wrong to a fifth of its requests: each must end well, and in time.

    python benchmarks/soak.py                 20,000 runs on the virtual clock, then as many over real sockets
    python benchmarks/soak.py --runs 2000     fewer

Every run has a second. It has to end in the right answer or in a typed error by then: exactly on the virtual clock,
within a tenth of a second on sockets, not counting the time in which a busy machine keeps the process from running.
At the end no task and no socket may be left, and memory may not have grown from the second quarter of the runs to the
last. Takes two minutes. Exit code 0: all of it holds. 1: something does not.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import gc
import json
import math
import os
import sys
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from experiments import Progress
from figures import table
from overhead import machine, show_progress
from platforms import loop_factory

from hotloop import Agent, Budget, tool
from hotloop.errors import HotloopError
from hotloop.lab.faultproxy import FaultProxy
from hotloop.lab.faults import Answer, Corrupt, Cut, Fault, FaultyTransport, Late, Refuse, Stall, mixed_faults
from hotloop.limit import stop
from hotloop.models.policy.policy import Breaker, Policy
from hotloop.models.transport import Transport
from hotloop.testing import ScriptedModel, SimulatedService, call, run_virtual
from hotloop.units import NS_PER_MS, clock, ns

SHARE = 0.2
KINDS: tuple[Fault, ...] = (
    Refuse(),
    Late(0.2),
    Late(30.0),
    Answer(429),
    Answer(429, retry_after=0.02),
    Answer(500),
    Answer(503, retry_after=0.05),
    Cut(None),
    Cut(0),
    Cut(250),
    Stall(250, 0.1),
    Stall(250),
    Corrupt(30, 4),
)
SECONDS = 1.0
LATE_MS = {"virtual clock": 0.0, "sockets": 100.0}
WORKERS, PAUSE = 40, 0.02  # runs at once, and seconds that each worker rests between two of its runs
BEAT = 0.005  # seconds
TTFT, TPOT = 0.01, 0.001
ANSWER = "It is on its way and will be there on Friday."
QUARTERS = 4
MOST_GROWTH = 4.0  # MB
ENOUGH = 2_000  # runs before memory tells anything


@dataclass
class Pulse:
    """How long the machine kept this process from running, in nanoseconds: in all, and the longest time at once.

    What the process itself did meanwhile is not the machine's doing.
    """

    lost: int = 0
    longest: int = 0
    due: int = 0
    cpu: int = 0

    async def beat(self) -> None:
        """Take it down, as long as nobody cancels it."""
        now = clock()
        while True:
            self.due, self.cpu = now() + ns(BEAT), time.process_time_ns()
            await asyncio.sleep(BEAT)
            gap = self._gap(now())
            self.lost, self.longest = self.lost + gap, max(self.longest, gap)

    def lost_until(self, now: int) -> int:
        """What was lost so far, also if it has not beaten since."""
        return self.lost + self._gap(now)

    def _gap(self, now: int) -> int:
        late = now - self.due if self.due else 0
        return max(0, late - (time.process_time_ns() - self.cpu)) if late > ns(BEAT) else 0


@dataclass
class Soak:
    """What came of all runs in one place: how they ended, when, and what they left behind.

    `late` is how many ms after its deadline each run ended, `worst` the most of it without the time that was lost.
    """

    where: str
    runs: int
    ends: Counter[str] = field(default_factory=Counter)
    untyped: list[str] = field(default_factory=list)
    late: array[float] = field(default_factory=lambda: array("d"))
    worst: float = -math.inf
    pulse: Pulse = field(default_factory=Pulse)
    memory: list[float] = field(default_factory=list)  # MB after each quarter; empty where it cannot be told
    tasks: int = 0
    sockets: int = 0
    seconds: float = 0.0

    def quantile(self, share: float) -> float:
        """How long after its deadline (before it, if negative) this share of runs had ended, in ms."""
        return sorted(self.late)[min(len(self.late) - 1, int(share * len(self.late)))]

    @property
    def problems(self) -> list[str]:
        """What does not hold, in sentences."""
        growth = self.memory[-1] - self.memory[1] if self.memory else 0.0
        checks = [
            (len(self.late) == self.runs, f"{len(self.late):,} of {self.runs:,} runs ended"),
            (not self.untyped, f"runs ended in something else than an answer or a typed error: {self.untyped[:3]}"),
            (self.worst <= LATE_MS[self.where], f"a run ended {self.worst:.3f} ms after its deadline"),
            (not self.tasks, f"{self.tasks} tasks were left"),
            (not self.sockets, f"{self.sockets} sockets were left"),
            (self.runs < ENOUGH or growth <= MOST_GROWTH, f"memory grew by {growth:.1f} MB after the second quarter"),
        ]
        return [f"{self.where}: {sentence}" for holds, sentence in checks if not holds]

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        late = {f"p{100 * share:g}": self.quantile(share) for share in (0.5, 0.95, 0.99, 1.0)}
        return dataclasses.asdict(self) | {"late": late, "ends": dict(self.ends), "problems": self.problems}


@tool(read_only=True)
async def where_is(order: str) -> dict[str, str]:
    """Where an order is now."""
    return {"order": order, "place": "Leipzig"}


def reply(request: dict) -> object:
    """What the service says: a call, and after its result the answer."""
    return ANSWER if request["messages"][-1]["role"] == "tool" else [call("where_is", order="20250101")]


def agent_of(endpoint: str | Transport) -> Agent:
    """Who runs."""
    breaker = Breaker(window=40, at_least=20, cool=0.3)  # wider than usual: a fifth is no reason to stop asking
    policy = Policy(hedge=True, stall=0.3, max_concurrent=WORKERS - 5, breaker=breaker)
    budget = Budget(total=SECONDS, answer_reserve=SECONDS / 5)
    return Agent(model="simulated", endpoint=endpoint, tools=[where_is], budget=budget, policy=policy)


async def run_all(soak: Soak, agent: Agent, progress: Progress, forget: Callable[[], None]) -> None:
    """All runs, some at once; `forget` drops what the service's side keeps of each of them."""
    numbers = iter(range(soak.runs))
    await asyncio.gather(*(_work(soak, agent, numbers, progress, forget) for _ in range(WORKERS)))


async def _work(
    soak: Soak, agent: Agent, numbers: Iterator[int], progress: Progress, forget: Callable[[], None]
) -> None:
    for number in numbers:
        if number % max(1, soak.runs // 100) == 0:
            progress(f"{soak.where}, round {100 * number // soak.runs} of 100")
        await _run(soak, agent)
        forget()
        if len(soak.late) in {soak.runs * quarter // QUARTERS for quarter in range(1, QUARTERS + 1)}:
            soak.memory += resident()
        await asyncio.sleep(PAUSE)


async def _run(soak: Soak, agent: Agent) -> None:
    now = clock()
    started = now()
    lost = soak.pulse.lost_until(started)
    try:
        result = await agent.run("Where is order 20250101?")
        end = "answer"
        if result.output != ANSWER:
            soak.untyped.append(f"the answer {result.output!r}")
    except HotloopError as error:
        end = type(error).__name__
    except Exception as error:
        end = repr(error)
        soak.untyped.append(end)
    ended = now()
    late = ended - started - ns(SECONDS)
    soak.late.append(late / NS_PER_MS)
    soak.worst = max(soak.worst, (late - (soak.pulse.lost_until(ended) - lost)) / NS_PER_MS)
    soak.ends[end] += 1


async def virtual(soak: Soak, progress: Progress) -> None:
    """In virtual time, on a model in the process."""
    model = ScriptedModel(reply, ttft=TTFT, tpot=TPOT)
    faulty = FaultyTransport(model, mixed_faults(SHARE, kinds=KINDS))

    def forget() -> None:
        model.requests.clear()
        faulty.met.clear()

    async with agent_of(faulty) as agent:
        await run_all(soak, agent, progress, forget)


async def on_sockets(soak: Soak, progress: Progress) -> None:
    """On a simulated service, with a proxy in front of it that does all the wrong."""
    async with (
        SimulatedService(reply, ttft=TTFT, tpot=TPOT) as service,
        FaultProxy(service.url, mixed_faults(SHARE, kinds=KINDS)) as proxy,
        agent_of(proxy.url) as agent,
    ):
        await run_all(soak, agent, progress, proxy.met.clear)


async def measured(soak: Soak, progress: Progress) -> None:
    """Everything, and what is left of it at the end."""
    sockets, started = open_sockets(), time.perf_counter()
    pulse = asyncio.create_task(soak.pulse.beat())
    await (virtual if soak.where == "virtual clock" else on_sockets)(soak, progress)
    await stop([pulse])
    await asyncio.sleep(0.1)  # what has been closed is gone a moment later
    soak.seconds = time.perf_counter() - started
    soak.tasks = len(asyncio.all_tasks()) - 1
    soak.sockets = open_sockets() - sockets


def measure(runs: int, progress: Progress) -> list[Soak]:
    """Both places."""
    soaks = [Soak(where, runs) for where in LATE_MS]
    run_virtual(measured(soaks[0], progress))
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(measured(soaks[1], progress))
    return soaks


def resident() -> list[float]:
    """MB that this process holds; nothing where the system does not say."""
    gc.collect()
    with suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return [pages * os.sysconf("SC_PAGE_SIZE") / 1e6]
    return []


def open_sockets() -> int:
    """How many sockets this process has open; 0 where the system does not say."""
    found = 0
    for each in Path("/proc/self/fd").glob("*"):
        with suppress(OSError):
            found += str(each.readlink()).startswith("socket:")
    return found


@dataclass
class Line:
    """A line of the table, with a column for each place."""

    name: str
    figures: list[str]

    def cells(self) -> list[str]:
        """The line as text."""
        return [self.name, *self.figures]


def lines(soaks: list[Soak]) -> list[Line]:
    """How runs ended, most often first, and then the figures."""
    ends = [end for end, _ in sum((soak.ends for soak in soaks), Counter[str]()).most_common()]
    return [
        *(Line(end, [f"{soak.ends[end]:,}" for soak in soaks]) for end in ends),
        Line("after the deadline, p50 (ms)", [f"{soak.quantile(0.5):,.1f}" for soak in soaks]),
        Line("p95", [f"{soak.quantile(0.95):,.1f}" for soak in soaks]),
        Line("p99", [f"{soak.quantile(0.99):,.1f}" for soak in soaks]),
        Line("the last", [f"{soak.quantile(1.0):,.1f}" for soak in soaks]),
        Line("the last, without lost time", [f"{max(0.0, soak.worst):,.1f}" for soak in soaks]),
        Line("kept from running, at most (ms)", [f"{soak.pulse.longest / NS_PER_MS:,.1f}" for soak in soaks]),
        Line("tasks left", [str(soak.tasks) for soak in soaks]),
        Line("sockets left", [str(soak.sockets) for soak in soaks]),
        Line("MB after each quarter", [" ".join(f"{each:.1f}" for each in soak.memory) for soak in soaks]),
        Line("seconds that it took", [f"{soak.seconds:,.1f}" for soak in soaks]),
    ]


def show(soaks: list[Soak]) -> None:
    """Print the table for a person, and what does not hold."""
    about = machine()
    print(
        f"hotloop {about['hotloop']}, {about['python']}, {about['loop']}, {about['platform']}, {about['cores']} cores\n"
    )
    print(
        f"{soaks[0].runs:,} runs of at most {SECONDS:g} s, {WORKERS} at once, {SHARE:.0%} of requests with a fault:\n"
    )
    print(table(["", *(soak.where for soak in soaks)], lines(soaks)))
    problems = [problem for soak in soaks for problem in soak.problems]
    print("\n" + ("\n".join(f"DOES NOT HOLD: {each}" for each in problems) or "all of it holds"))


def main() -> int:
    """Run, print, and say by the exit code whether everything holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", metavar="N", type=int, default=20_000, help="how many, in each place (20,000)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write machine and figures to this file as well")
    asked = parser.parse_args()
    if asked.runs < QUARTERS:
        parser.error(f"--runs is {asked.runs}; give at least {QUARTERS}")
    soaks = measure(asked.runs, show_progress)
    show_progress("")
    show(soaks)
    if asked.json:
        figures = {"machine": machine(), "soaks": [soak.to_dict() for soak in soaks]}
        asked.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 1 if any(soak.problems for soak in soaks) else 0


if __name__ == "__main__":
    sys.exit(main())
