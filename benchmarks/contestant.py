"""A contestant in a process of its own: reads one order a line, measures it, writes one line of figures.

    python contestant.py NAME PORT

An order is {"workload", "service" ("<ttft>/<tpot>" in ms), "runs"} for runs one after another, or "sessions" and
"seconds" in place of "runs" for that many at once. `overhead.py` writes the orders; between two of them this
process sleeps. Every answer is compared with the right one, and every tool call counted.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import sys
import time
import traceback
import warnings
from functools import cache
from typing import Any

from platforms import CLIENT_CPU, loop_factory, pin
from workload import Ask, Tally, Task

WARM_RUNS = 3  # uncounted at the start of every block: caches, and connections that the service's side has to accept
STAGGER = 0.25  # seconds over which sessions start, so that they do not march in step
RAMP = 0.6  # seconds before the counting of sessions starts


class WrongAnswer(Exception):
    """A run did not give the only right answer, or did not run the tools it had to."""


class Meter:
    """Counts runs, their wall time, characters of text and CPU, from `start` to `figures`."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Count from here."""
        self.walls: list[float] = []
        self.characters = 0
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def text(self, piece: str) -> None:
        """A piece of an answer has come."""
        self.characters += len(piece)

    def figures(self) -> dict[str, Any]:
        """What has been counted, times in seconds."""
        cpu, wall = time.process_time() - self._cpu, time.perf_counter() - self._wall
        return {"cpu": cpu, "wall": wall, "walls": self.walls.copy(), "characters": self.characters}


async def checked_run(ask: Ask, task: Task, meter: Meter) -> None:
    """One run, its wall time and its answer."""
    started = time.perf_counter()
    answer = await ask(meter.text)
    meter.walls.append(time.perf_counter() - started)
    if answer != task.answer:
        raise WrongAnswer(f"expected {task.answer[:60]!r}..., got {answer!r:.300}")


async def one_by_one(ask: Ask, task: Task, runs: int) -> dict[str, Any]:
    """Runs one after another."""
    meter = Meter()
    for _ in range(WARM_RUNS):
        await checked_run(ask, task, meter)
    tools_before = Tally.calls
    meter.start()
    for _ in range(runs):
        await checked_run(ask, task, meter)
    figures = meter.figures()
    if (calls := Tally.calls - tools_before) != runs * task.tool_calls:
        raise WrongAnswer(f"{calls} tool calls in {runs} runs of {task.workload}, not {task.tool_calls} each")
    return figures


async def at_once(ask: Ask, task: Task, sessions: int, seconds: float) -> dict[str, Any]:
    """So many sessions, each starting its next run when one has ended; counted once all are under way."""
    meter = Meter()
    over = asyncio.Event()

    async def session(number: int) -> None:
        await asyncio.sleep(STAGGER * number / sessions)
        while not over.is_set():
            await checked_run(ask, task, meter)

    async with asyncio.TaskGroup() as group:
        for number in range(sessions):
            group.create_task(session(number))
        await asyncio.sleep(RAMP)
        meter.start()
        await asyncio.sleep(seconds)
        figures = meter.figures()
        over.set()
    return figures


async def measure(build: Any, port: int, order: dict[str, Any]) -> dict[str, Any]:
    """The figures for one order."""
    task = Task(order["workload"], f"http://127.0.0.1:{port}/{order['service']}/v1")
    if "runs" in order:
        return await one_by_one(build(task), task, order["runs"])
    return await at_once(build(task), task, order["sessions"], order["seconds"])


def main(name: str, port: int) -> None:
    """Serve orders from standard input until it ends."""
    pin(CLIENT_CPU)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    build = cache(importlib.import_module(f"contestants.{name}").build)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        for line in sys.stdin:
            try:
                figures = runner.run(measure(build, port, json.loads(line)))
            except Exception as error:
                traceback.print_exc()
                figures = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
