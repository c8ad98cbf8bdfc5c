"""What a conversation of 10,000 messages costs to open, to read and to go on with.

    python benchmarks/sessions.py                ten seconds
    python benchmarks/sessions.py --json FILE    the figures into this file as well

Conversations of 5,000 turns, a prompt and an answer each, are kept in a SQLite file in the folder for temporary files.
"Open" is what a run does before anything else: from the call of `agent.session(id).run` until the conversation is
loaded. Exit code 0: the median is at most 20 ms for an agent that has not seen the conversation before, and at most
0.1 ms for reading what is in memory. 1: that does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import asdict
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from overhead import machine
from platforms import loop_factory
from timed import Timed, heading

from hotloop import Agent
from hotloop.context.sessions.inprocess import InProcessSessions
from hotloop.context.sessions.record import SessionKey, SessionState, SessionStore, StoredTurn
from hotloop.context.sessions.sqlite import SQLiteSessions
from hotloop.testing import ScriptedModel
from hotloop.trace.stats import percentile
from hotloop.units import NS_PER_MS, clock

TURNS = 5_000
SIZES = (100, 400)  # characters of a message
ROUNDS = 50
OPEN_MS, READ_MS = 20.0, 0.1
SAID = "the parcel has not come, and nobody knows where it is; "
KEY = SessionKey("benchmark", "long")


WIDTH = 24


def turn(number: int, size: int) -> StoredTurn:
    """A prompt and an answer, of so many characters each."""
    said = f"{number}: {SAID * size}"[:size]
    messages = {"role": "user", "content": said}, {"role": "assistant", "content": said}
    return StoredTurn(number, float(number), msgspec.json.encode(messages)[1:-1])


async def keep(store: SessionStore, size: int, first: int, last: int) -> None:
    """Add turns `first` to `last`."""
    for number in range(first, last + 1):
        await store.commit(KEY, SessionState(version=number), turn(number, size), {})


async def measure(path: Path, size: int) -> list[Timed]:
    """All rows, for messages of this size."""
    in_process = InProcessSessions()
    async with aclosing(SQLiteSessions(path)) as in_file:
        for store in (in_file, in_process):
            await keep(store, size, 1, TURNS)
        return [
            *await opened(path),
            await timed("load from the file", lambda: in_file.load(KEY)),
            await timed("load in the process", lambda: in_process.load(KEY), READ_MS),
            await timed("begin and cease to write", lambda: written(in_file)),
            await committed(in_file, size),
        ]


async def opened(path: Path) -> list[Timed]:
    """From the call of `run` until the conversation is loaded: by a new agent, and once more by the same one."""
    first, again = [], []
    for _ in range(ROUNDS):
        agent = Agent(model="m", endpoint=ScriptedModel(lambda _: "Yes."), name=KEY.agent, sessions=path)
        async with agent:
            first.append(await until_loaded(agent))
            again.append(await until_loaded(agent))
    return [row("open, by a new agent", first, OPEN_MS), row("open once more", again)]


async def until_loaded(agent: Agent) -> float:
    """Milliseconds from the call until the conversation is loaded."""
    started = clock()()
    result = await agent.session(KEY.id).run("And now?")
    (loaded,) = [stage.end for stage in result.trace.stages if stage.note == "session loaded"]
    return (loaded - started) / NS_PER_MS


async def written(store: SessionStore) -> None:
    """Become the one who writes, and be it no longer."""
    async with store.writing(KEY, wait=False):
        pass


async def committed(store: SessionStore, size: int) -> Timed:
    """Add turns, one by one."""
    stored = await store.load(KEY)
    numbers = count(stored.state.version + 1 if stored else 1)

    async def add() -> None:
        number = next(numbers)
        await keep(store, size, number, number)

    return await timed("commit a turn", add)


async def timed(name: str, work: Callable[[], Awaitable[Any]], bound: float | None = None) -> Timed:
    """A row for this work."""
    took = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        await work()
        took.append((time.perf_counter() - started) * 1e3)
    return row(name, took, bound)


def row(name: str, took: list[float], bound: float | None = None) -> Timed:
    """A row of these milliseconds."""
    return Timed(name, median(took), percentile(took, 95), bound)


def main() -> int:
    """Measure, print, and say by the exit code whether every bound is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", type=Path, help="write machine and figures to this file as well")
    asked = parser.parse_args()
    found: dict[int, list[Timed]] = {}
    with TemporaryDirectory() as folder, asyncio.Runner(loop_factory=loop_factory()) as runner:
        for size in SIZES:
            found[size] = runner.run(measure(Path(folder) / f"{size}.db", size))
            print(f"{2 * TURNS:,} messages of {size} characters\n\n{heading(WIDTH)}")
            print("\n".join(each.line(WIDTH) for each in found[size]), end="\n\n", flush=True)
    if asked.json:
        figures = {f"{size} characters": [asdict(each) for each in rows] for size, rows in found.items()}
        asked.json.write_text(json.dumps({"machine": machine(), **figures}, indent=2) + "\n")
    return 0 if all(each.met for rows in found.values() for each in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
