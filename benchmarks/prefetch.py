"""What learned prefetch brings on tasks that it has not seen: two desks of tau2-bench, with their tools and databases.

    python benchmarks/prefetch.py

The reference solutions of tau2's training tasks are run, one call a turn, and learned from. Then those of its test
tasks are run without prefetch and with it, on simulated services in virtual time; nothing is learned from them. A tool
takes a time that is drawn once for each call of each task (log-normal, sigma 0.5, its median is in the table), so that
both ways meet the same times. docs/prefetch.md says what to make of it, and what reference solutions are not.

The first time an environment of its own is made (benchmarks/venvs/tau2, 90 MB); after that it takes half a minute. Exit
code 0: at the retail desk it pays, and every result that the model read is the same. 1: not so. 2: no figures, and why.
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))  # for the environment that this goes on in

import environments  # noqa: E402
from figures import columns  # noqa: E402

from hotloop import Agent, Prefetch, Traces, TraceStore  # noqa: E402
from hotloop.errors import HotloopError  # noqa: E402
from hotloop.insight.bootstrap import compare  # noqa: E402
from hotloop.insight.edits import Prefetch as Guessed  # noqa: E402
from hotloop.insight.whatif import whatif  # noqa: E402
from hotloop.lab.script import AnyReply, Request, call, turn  # noqa: E402
from hotloop.lab.simtransport import SimulatedTransport  # noqa: E402
from hotloop.lab.virtual import run_virtual  # noqa: E402
from hotloop.tools.prefetch.history import history_of  # noqa: E402
from hotloop.tools.prefetch.kept import Learned, learned_at  # noqa: E402
from hotloop.trace.recording.recorder import recorder  # noqa: E402

if TYPE_CHECKING:
    from tau2world import Latency, Task, World

GPU, LPU = "gpu-h100x2-llama70b-fp8", "groqcloud-llama70b"
SIGMA = 0.5
DRAWS = 5  # of the tools' times, for each task
ANSWER = "That is done. " * 12
HEADING = [
    *("desk", "service", "tool", "mean run", "saved", "90 %", "p50 saved"),
    *("reads hit", "used", "in vain a run", "what-if", "all hit"),
]
FEWER = ["retail, " + GPU, "saved", "reads hit", "used", "in vain a run"]
PUBLISHED = """\
what-if: what hotloop whatif says of the runs without, given this share of hits; all hit: given that all are.
Published, of other work: PASTE -48.5 % task time, Speculative Actions up to -20 %."""


@dataclass(frozen=True)
class Setting:
    """A service, and how many seconds a tool takes in the median."""

    service: str
    median: float


_copies = count()
SETTINGS = [Setting(service, median) for service in (GPU, LPU) for median in (0.2, 0.8)]


@dataclass(frozen=True)
class Ran:
    """A run of a task: how long it took (ms), what the model read, how many calls only read, and what prefetch did."""

    took: float
    results: list[str]
    reads: int
    started: int
    used: int
    wasted: float


@dataclass(frozen=True)
class Line:
    """What was saved of the mean and of the median task, in shares of it, and between which two the first is in 90 % of
    all draws of tasks; times in milliseconds.

    `hits` is the share of the reading calls that had been begun ahead, `used` that of the calls begun ahead which the
    model made. A run has `vain` calls that it did not make, which took `vain_ms`.
    """

    name: tuple[str, ...]
    before: float
    after: float
    saved: float
    low: float
    high: float
    saved_p50: float
    hits: float
    used: float
    vain: float
    vain_ms: float
    same: bool
    predicted: float = 0.0
    bound: float = 0.0

    def short(self) -> list[str]:
        """What matters most, as text."""
        vain = f"{self.vain:.2f}, {self.vain_ms:,.0f} ms"
        return [", ".join(self.name), f"{self.saved:.1%}", f"{self.hits:.0%}", f"{self.used:.0%}", vain]

    def cells(self) -> list[str]:
        """All of it."""
        _, saved, *more = self.short()
        times = f"{self.before:,.0f} → {self.after:,.0f} ms"
        sure = f"{self.low:.1%} .. {self.high:.1%}"
        guessed = [f"{self.predicted:.1%}", f"{self.bound:.1%}"]
        return [*self.name, times, saved, sure, f"{self.saved_p50:.1%}", *more, *guessed]


class Desk:
    """A world's agents, whose runs are recorded in `folder`."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.folder = folder
        self._task: Task | None = None
        self._draw = 0
        self._results: list[str] = []

    def run(self, tasks: list[Task], setting: Setting, draws: int = 1, **options: Any) -> list[Ran]:
        """The tasks, so often each, one after the other."""

        async def runs() -> list[Ran]:
            agent = Agent(
                name=self.world.name,
                model="m",
                endpoint=SimulatedTransport(self._reply, profile=setting.service),
                instructions=self.world.policy,
                tools=self.world.tools(self._latency(setting.median)),
                max_turns=40,
                **options,
            )
            async with agent:
                return [await self._ran(agent, task, draw) for draw in range(draws) for task in tasks]

        return run_virtual(runs())

    async def _ran(self, agent: Agent, task: Task, draw: int) -> Ran:
        self._task, self._draw = task, draw
        with self.world.task():
            trace = (await agent.run(task.prompt)).trace
        reads = sum(name in self.world.reading for name, _ in task.calls)
        told = {"started": 0, "used": 0, "wasted_ms": 0.0} | trace.facts.get("prefetch", {})
        return Ran(trace.end_to_end_ms, self._results, reads, told["started"], told["used"], told["wasted_ms"])

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


def teach(desk: Desk, most: int | None = None) -> Learned:
    """What the first training tasks teach, from the record of their runs, as `hotloop prefetch learn` does it."""
    tasks = desk.world.tasks("train")[:most]
    store, learned = (desk.folder / f"{desk.world.name}.{len(tasks)}.{name}" for name in ("traces", "learned"))
    if not learned.exists():
        desk.run(tasks, SETTINGS[0], traces=Traces(path=str(store), content=True))
        recorder.flush(60.0)
        histories = (history_of(record) for record in TraceStore(store).find())
        learned_at(learned).learn(history for history in histories if history is not None)
    return learned_at(learned)


def copied(learned: Learned) -> Learned:
    """The same in a file of its own, which learns nothing more: neither from test tasks, nor whether it pays."""
    learned.close()
    copy = learned_at(shutil.copy(learned.path, f"{learned.path}.{next(_copies)}"))
    copy.export = lambda records: None  # type: ignore[method-assign]
    return copy


def measure(
    desk: Desk, setting: Setting, without: list[Ran], name: tuple[str, ...], learned: Learned, confidence: float = 0.6
) -> Line:
    """The test tasks with prefetch, next to those without."""
    tasks = desk.world.tasks("test")
    prefetch = Prefetch(path=str(copied(learned).path), confidence=confidence)
    ahead = desk.run(tasks, setting, DRAWS, traces=False, prefetch=prefetch)
    was, now = (
        [fmean(each.took for each in runs[place :: len(tasks)]) for place in range(len(tasks))]
        for runs in (without, ahead)
    )
    times = compare(was, [[each] for each in now])
    saved, before = times.saved, times.before
    reads, used, started = (sum(getattr(each, what) for each in ahead) for what in ("reads", "used", "started"))
    return Line(
        name,
        before=before.mean.value,
        after=times.after.mean.value,
        saved=saved.mean.value / before.mean.value,
        low=saved.mean.low / before.mean.value,
        high=saved.mean.high / before.mean.value,
        saved_p50=saved.p50.value / before.p50.value,
        hits=used / reads,
        used=used / started if started else 0.0,
        vain=(started - used) / len(ahead),
        vain_ms=fmean(each.wasted for each in ahead),
        same=[each.results for each in ahead] == [each.results for each in without],
    )


def compared(desk: Desk, learned: Learned, setting: Setting) -> Line:
    """A line of the first table, with what what-if makes of the runs without prefetch."""
    store = desk.folder / f"{desk.world.name}.{setting.service}.{setting.median}"
    without = desk.run(desk.world.tasks("test"), setting, DRAWS, traces=str(store))
    recorder.flush(60.0)
    name = (desk.world.name, setting.service, f"{setting.median * 1e3:,.0f} ms")
    line = measure(desk, setting, without, name, learned)
    return Line(**asdict(line) | {"predicted": guessed(store, line.hits), "bound": guessed(store, 1.0)})


def guessed(store: Path, rate: float) -> float:
    """The share of the mean run that what-if says is saved if so large a share of the reading calls is guessed."""
    times = whatif(TraceStore(store).find(), [Guessed(rate=rate)]).times
    return times.saved.mean.value / times.before.mean.value


def fewer(desk: Desk) -> list[Line]:
    """What it takes: how many runs to learn from, and what another threshold makes of it."""
    setting = SETTINGS[0]
    without = desk.run(desk.world.tasks("test"), setting, DRAWS, traces=False)
    numbers = (10, 20, 40, len(desk.world.tasks("train")))
    lines = [measure(desk, setting, without, (f"learned from {most}",), teach(desk, most)) for most in numbers]
    surer = (0.3, 0.45, 0.75)
    lines += [measure(desk, setting, without, (f"confidence={each:g}",), teach(desk), each) for each in surer]
    return lines


def main() -> int:
    """Measure, print, and say by the exit code whether it was as it should be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures to this file as well")
    asked = parser.parse_args()
    try:
        import tau2world
    except ModuleNotFoundError:
        return elsewhere()
    logging.disable(logging.WARNING)  # a tool whose answer is an error is no news here
    try:
        with tempfile.TemporaryDirectory() as folder:
            desks = [Desk(world, Path(folder)) for world in tau2world.worlds()]
            lines = [compared(desk, learned, each) for desk in desks for learned in [teach(desk)] for each in SETTINGS]
            more = fewer(desks[0])
    except HotloopError as problem:
        print(f"no figures: {problem}", file=sys.stderr)
        return 2
    print(columns([HEADING, *(line.cells() for line in lines)], "<<" + ">" * 10), PUBLISHED, sep="\n\n")
    print("", columns([FEWER, *(line.short() for line in more)], "<>>>>"), sep="\n")
    held = [line.same and (line.low > 0 or line.name[0] != "retail") for line in lines]
    print(f"\nas it should be: {sum(held)} of {len(held)}, {'met' if all(held) else 'NOT MET'}")
    if asked.json:
        asked.json.write_text(json.dumps([asdict(line) for line in [*lines, *more]], indent=2) + "\n")
    return 0 if all(held) else 1


def elsewhere() -> int:
    """Go on in the environment that has tau2, which is made if it is not there."""
    try:
        if not environments.ready("tau2"):
            environments.make("tau2")
    except subprocess.CalledProcessError:
        print("no figures: the environment tau2 could not be made; what pip said is above", file=sys.stderr)
        return 2
    return subprocess.run([environments.python_of("tau2"), *sys.argv], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
