"""What it costs that runs are recorded: CPU a run, how late the event loop is, and reading the records back.

    python benchmarks/recording.py            about four minutes
    python benchmarks/recording.py --quick    a minute: wider intervals

An agent runs with its runs recorded and without, in turns, so that a busy moment of the machine meets both; the model
is a service on the loopback, on another core. Replies that are "streamed" come token by token, as services send them,
those "at once" in one piece, which is the least that an agent's loop can have to do. Exit code 0: every bound is met.
1: one is not.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from figures import Row, compare, ratio_at_most, table
from platforms import CLIENT_CPU, loop_factory, pin
from processes import Service
from workload import API_KEY, INSTRUCTIONS, Ask, Task

from hotloop import Agent, TextDelta, Traces, tool
from hotloop.trace.recording.recorder import recorder
from hotloop.trace.stats import percentile
from hotloop.trace.store import TraceStore

SHARE = ratio_at_most(0.05)
PER_SECOND = 10_000 / 60
TICK = 0.005  # seconds between two looks at the event loop
PATIENCE = 60.0
HEADING = ["", "recorded", "other", "", "ratio", "95 % interval", "bound", "", ""]


class Meter:
    """An exporter that tells how much CPU the recording thread has had, all exporters before it included."""

    cpu = 0.0

    def export(self, records: Sequence[Any]) -> None:
        """Called in that thread."""
        Meter.cpu = time.thread_time()

    def close(self) -> None:
        """Nothing to close."""


@dataclass
class Block:
    """What some runs took, in seconds of CPU a run: in the event loop's thread, and in the recording one."""

    loop: float
    recording: float


@dataclass
class Paced:
    """What runs took that began at a steady pace, and by how much the event loop was late meanwhile; milliseconds."""

    walls: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)


async def several(ask: Ask, runs: int, at_once: int) -> None:
    """So many runs, so many of them at a time."""

    async def some(number: int) -> None:
        for _ in range(number, runs, at_once):
            await ask(lambda text: None)

    await asyncio.gather(*map(some, range(at_once)))


def block(runner: asyncio.Runner, ask: Ask, runs: int, at_once: int) -> Block:
    """Some runs, and what they took when all of them are recorded."""
    before, cpu = Meter.cpu, time.thread_time()
    runner.run(several(ask, runs, at_once))
    loop = time.thread_time() - cpu
    assert recorder.flush(PATIENCE)
    return Block(loop / runs, (Meter.cpu - before) / runs)


async def paced(ask: Ask, runs: int, found: Paced) -> None:
    """So many runs at the pace of 10,000 a minute."""
    start, tasks = time.perf_counter(), set()

    async def timed() -> None:
        began = time.perf_counter()
        await ask(lambda text: None)
        found.walls.append((time.perf_counter() - began) * 1e3)

    watching = asyncio.create_task(watch(found.late))
    for number in range(runs):
        await asyncio.sleep(max(start + number / PER_SECOND - time.perf_counter(), 0))
        tasks.add(asyncio.create_task(timed()))
    await asyncio.gather(*tasks)
    watching.cancel()


async def watch(late: list[float]) -> None:
    """Note by how much the event loop is late, again and again."""
    while True:
        due = time.perf_counter() + TICK
        await asyncio.sleep(TICK)
        late.append(max(time.perf_counter() - due, 0) * 1e3)


@dataclass
class Bench:
    """Agents that are measured, one whose runs are recorded and one whose are not, and how often."""

    runner: asyncio.Runner
    port: int
    path: Path
    share: int
    rows: list[Row] = field(default_factory=list)

    def agents(self, workload: str, service: str) -> tuple[Ask, Ask]:
        """The recorded one first."""
        task = Task(workload, f"http://127.0.0.1:{self.port}/{service}/v1")
        traces = Traces(path=str(self.path))
        return build(task, traces=traces, exporters=[Meter()]), build(task, traces=False)

    def cpu(self, name: str, workload: str, service: str, runs: int, at_once: int, rounds: int) -> None:
        """CPU a run, recorded and not."""
        asks, taken = self.agents(workload, service), ([], [])
        for number in range(max(rounds // self.share, 3) + 1):
            progress(f"{name}, round {number}")
            for which in (0, 1) if number % 2 else (1, 0):
                taken[which].append(block(self.runner, asks[which], runs, at_once))
        on, off = taken[0][1:], taken[1][1:]
        loops = [each.loop * 1e3 for each in off]
        whole = [(each.loop + each.recording) * 1e3 for each in on]
        recording = [each.recording * 1e3 for each in on]
        self.rows.append(compare(f"{name}: CPU a run", "ms", whole, "not recorded", loops))
        self.rows.append(compare(f"{name}: recording thread", "ms", recording, "the loop", loops, SHARE))

    def pace(self, slices: int, runs: int) -> tuple[int, int]:
        """10,000 runs a minute, recorded and not; how many were, and how many were dropped."""
        asks = self.agents("A", "20/2")
        found = [[Paced() for _ in range(slices)] for _ in asks]
        dropped, before = recorder.dropped, len(TraceStore(self.path).infos())
        for number in range(slices):
            progress(f"10,000 runs a minute, slice {number + 1} of {slices}")
            for which in (0, 1) if number % 2 else (1, 0):
                self.runner.run(paced(asks[which], runs, found[which][number]))
        assert recorder.flush(PATIENCE)
        for name, of, percent in FIGURES:
            on, off = ([percentile(of(each), percent) for each in those] for those in found)
            self.rows.append(compare(f"10,000 a minute: {name} p{percent:g}", "ms", on, "not recorded", off))
        return len(TraceStore(self.path).infos()) - before, recorder.dropped - dropped


FIGURES: list[tuple[str, Callable[[Paced], list[float]], float]] = [
    ("a run,", lambda paced: paced.walls, 50),
    ("a run,", lambda paced: paced.walls, 99),
    ("the loop is late,", lambda paced: paced.late, 99),
    ("the loop is late,", lambda paced: paced.late, 99.9),
]


def build(task: Task, **options: Any) -> Ask:
    """An agent, and its streamed run."""
    tools = [tool(read_only=True)(function) for function in task.tools]
    told = {"model": task.model, "endpoint": task.base_url, "api_key": API_KEY, "instructions": INSTRUCTIONS}
    agent = Agent(tools=tools, **told, **options)

    async def run(on_text: Callable[[str], None]) -> str:
        async for event in agent.stream(task.question):
            if isinstance(event, TextDelta):
                on_text(event.text)
        return ""

    return run


def reading(path: Path) -> tuple[int, float]:
    """How many records there are, and the seconds that reading 10,000 of them takes."""
    begun = time.perf_counter()
    count = sum(1 for _ in TraceStore(path).find())
    return count, (time.perf_counter() - begun) / count * 10_000


def progress(text: str) -> None:
    """On a terminal, one line that is overwritten."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def main() -> int:
    """Measure, print, and say by the exit code whether every bound is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds: wider intervals")
    quick = parser.parse_args().quick
    pin(CLIENT_CPU)
    with (
        Service() as service,
        tempfile.TemporaryDirectory() as folder,
        asyncio.Runner(loop_factory=loop_factory()) as run,
    ):
        bench = Bench(run, service.port, Path(folder) / "traces.db", 4 if quick else 1)
        bench.cpu("A, streamed", "A", "20/2", 200, 40, 10)
        bench.cpu("A, at once", "A", "0/0", 200, 1, 20)
        bench.cpu("B, at once", "B", "0/0", 50, 1, 20)
        recorded, dropped = bench.pace(3 if quick else 6, 500 if quick else 1_667)
        count, seconds = reading(bench.path)
        size = bench.path.stat().st_size / count
    progress("")
    print(table(HEADING, bench.rows))
    print(f"\n10,000 runs a minute: {recorded:,} recorded, {dropped:,} dropped")
    print(f"reading 10,000 records: {seconds:.2f} s, of {size:,.0f} bytes each in the file")
    return 1 if dropped or any(row.met is False for row in bench.rows) else 0


if __name__ == "__main__":
    sys.exit(main())
