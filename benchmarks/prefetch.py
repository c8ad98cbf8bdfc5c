"""What learned prefetch brings on tasks that it has not seen: two desks of tau2-bench, with their tools and databases.

    python benchmarks/prefetch.py

The reference solutions of tau2's training tasks are run, one call a turn, and learned from; then those of its test tasks
are run without prefetch and with it, on simulated services in virtual time. Nothing is learned from the test tasks. A tool
takes a time that is drawn once for each call of each task (log-normal, the median is in the table, sigma 0.5), so that
both ways meet the same times. docs/prefetch.md says what to make of it, and what reference solutions are not.

Makes an environment of its own (benchmarks/venvs/tau2, 100 MB) if there is none; takes three minutes. Exit code 0: at
the retail desk prefetch pays, and every answer is the same. 1: not so. 2: no figures, and why.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))

from figures import columns  # noqa: E402

from hotloop import Agent  # noqa: E402
from hotloop.insight.bootstrap import compare  # noqa: E402
from hotloop.insight.edits import Prefetch as Guessed  # noqa: E402
from hotloop.insight.whatif import whatif  # noqa: E402
from hotloop.lab.script import AnyReply, Request, call, turn  # noqa: E402
from hotloop.lab.simtransport import SimulatedTransport  # noqa: E402
from hotloop.lab.virtual import run_virtual  # noqa: E402
from hotloop.tools.prefetch.kept import learned_at  # noqa: E402
from hotloop.tools.prefetch.settings import Prefetch  # noqa: E402
from hotloop.trace.record import TraceRecord  # noqa: E402
from hotloop.trace.recorder import recorder  # noqa: E402
from hotloop.trace.recording import Traces  # noqa: E402
from hotloop.trace.store import TraceStore  # noqa: E402

if TYPE_CHECKING:
    from tau2world import Latency, Task, World

SERVICES = ["gpu-h100x2-llama70b-fp8", "groqcloud-llama70b"]
MEDIANS = [0.2, 0.8]  # seconds
SIGMA = 0.5
DRAWS = 5  # of the tools' times, for each task
ANSWER = "That is done. " * 12
HEADING = [
    *("desk", "service", "tool", "mean run", "saved", "90 %", "p50 saved"),
    *("reads hit", "used", "in vain a run", "what-if", "all hit"),
]


@dataclass(frozen=True)
class Ran:
    """A run of a task: how long it took, how many calls only read, and what its prefetch did; times in milliseconds."""

    took: float
    reads: int
    answer: str
    started: int = 0
    used: int = 0
    wasted: float = 0.0


@dataclass(frozen=True)
class Line:
    """A desk at a service, with tools of this median (s): times in milliseconds, shares of what it was without."""

    desk: str
    service: str
    median: float
    runs: int
    before: float
    after: float
    saved: float
    low: float
    high: float
    saved_p50: float
    hits: float
    precision: float
    vain: float
    vain_ms: float
    predicted: float
    bound: float
    same: bool

    def cells(self) -> list[str]:
        """The line as text."""
        return [
            *(self.desk, self.service, f"{self.median * 1e3:,.0f} ms", f"{self.before:,.0f} → {self.after:,.0f} ms"),
            *(f"{self.saved:.1%}", f"{self.low:.1%} .. {self.high:.1%}", f"{self.saved_p50:.1%}"),
            *(f"{self.hits:.0%}", f"{self.precision:.0%}", f"{self.vain:.2f}, {self.vain_ms:,.0f} ms"),
            *(f"{self.predicted:.1%}", f"{self.bound:.1%}"),
        ]


@dataclass(frozen=True)
class Setting:
    """A service and how long tools take in the median (s)."""

    service: str
    median: float


class Desk:
    """A world's agents; `path` is where its runs are recorded and what they teach is kept."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.traces = folder / f"{world.name}.traces.db"
        self.learned = folder / f"{world.name}.prefetch.db"
        self._task: Task | None = None
        self._draw = 0

    def run(self, tasks: list[Task], setting: Setting, draws: int = 1, **options: Any) -> list[Ran]:
        """The tasks, so often each, one after the other."""

        async def runs() -> list[Ran]:
            service = SimulatedTransport(self._reply, profile=setting.service)
            tools = self.world.tools(self._latency(setting.median))
            agent = Agent(
                name=self.world.name,
                model="m",
                endpoint=service,
                instructions=self.world.policy,
                tools=tools,
                max_turns=40,
                **options,
            )
            async with agent:
                return [await self._ran(agent, task, draw) for draw in range(draws) for task in tasks]

        return run_virtual(runs())

    async def _ran(self, agent: Agent, task: Task, draw: int) -> Ran:
        self._task, self._draw = task, draw
        with self.world.task():
            result = await agent.run(task.prompt)
        told = result.trace.facts.get("prefetch", {})
        reads = sum(name in self.world.reading for name, _ in task.calls)
        said = "\n".join(self._results)
        figures = told.get("started", 0), told.get("used", 0), told.get("wasted_ms", 0.0)
        return Ran(result.trace.end_to_end_ms, reads, said, *figures)

    def _reply(self, request: Request) -> AnyReply:
        """The next call of the task's reference solution, or an answer."""
        assert self._task is not None
        self._results = [str(each["content"]) for each in request["messages"] if each["role"] == "tool"]
        calls = self._task.calls[turn(request) :]
        return call(calls[0][0], **calls[0][1]) if calls else ANSWER

    def _latency(self, median: float) -> Latency:
        def seconds(tool: str, arguments: dict[str, Any]) -> float:
            assert self._task is not None
            of = json.dumps([self._draw, self._task.id, tool, arguments], sort_keys=True)
            return median * Random(of).lognormvariate(0.0, SIGMA)

        return seconds


def teach(desk: Desk) -> int:
    """Run the training tasks, and learn from the record of them; from how many."""
    desk.run(
        desk.world.tasks("train"), Setting(SERVICES[0], MEDIANS[0]), traces=Traces(path=str(desk.traces), content=True)
    )
    return learn(desk, TraceStore(desk.traces).find())


def learn(desk: Desk, records: Iterator[TraceRecord]) -> int:
    """What `hotloop prefetch learn` does."""
    from hotloop.tools.prefetch.history import history_of

    recorder.flush(60.0)
    histories = [history for record in records if (history := history_of(record)) is not None]
    return learned_at(desk.learned).learn(histories)


def measure(desk: Desk, setting: Setting) -> Line:
    """The test tasks without prefetch and with it, and what what-if makes of the runs without."""
    tasks = desk.world.tasks("test")
    kept = desk.traces.with_name(f"{desk.world.name}.{setting.service}.{setting.median}.db")
    without = desk.run(tasks, setting, DRAWS, traces=str(kept))
    recorder.flush(60.0)
    ahead = desk.run(tasks, setting, DRAWS, traces=False, prefetch=Prefetch(path=str(desk.learned)))
    records = list(TraceStore(kept).find())
    reads, used, started = (sum(getattr(each, name) for each in ahead) for name in ("reads", "used", "started"))
    hits = used / reads
    compared = compare([each.took for each in without], [[each.took] for each in ahead])
    before = compared.before.mean.value
    return Line(
        desk=desk.world.name,
        service=setting.service,
        median=setting.median,
        runs=len(ahead),
        before=before,
        after=compared.after.mean.value,
        saved=compared.saved.mean.value / before,
        low=compared.saved.mean.low / before,
        high=compared.saved.mean.high / before,
        saved_p50=compared.saved.p50.value / compared.before.p50.value,
        hits=hits,
        precision=used / started if started else 0.0,
        vain=(started - used) / len(ahead),
        vain_ms=fmean(each.wasted for each in ahead),
        predicted=guessed(records, hits),
        bound=guessed(records, 1.0),
        same=[each.answer for each in ahead] == [each.answer for each in without],
    )


def guessed(records: list[TraceRecord], rate: float) -> float:
    """The share of the mean run that what-if says is saved if so large a share of the reading calls is guessed."""
    times = whatif(records, [Guessed(rate=rate)]).times
    return times.saved.mean.value / times.before.mean.value


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures to this file as well")
    asked = parser.parse_args()
    try:
        import tau2world
    except ModuleNotFoundError:
        return inside()
    logging.disable(logging.WARNING)
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as folder:
        for world in tau2world.worlds():
            desk = Desk(world, Path(folder))
            print(f"{world.name}: learned from {teach(desk)} runs", file=sys.stderr, flush=True)
            learned_at(desk.learned).export = lambda records: None  # type: ignore[method-assign]  # nothing more
            for service in SERVICES:
                for median in MEDIANS:
                    lines.append(measure(desk, Setting(service, median)))
                    print(" · ".join(lines[-1].cells()), file=sys.stderr, flush=True)
    print(columns([HEADING, *(line.cells() for line in lines)], "<<>>>>>>>>>>"))
    return 0


def inside() -> int:
    """Run this in the environment that has tau2, which is made if it is not there."""
    import environments

    if not environments.ready("tau2"):
        environments.make("tau2")
    return subprocess.run([environments.python_of("tau2"), *sys.argv], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
