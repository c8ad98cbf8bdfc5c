"""What it costs to look into memory, with 110,000 facts in its file, and to change what is there.

    python benchmarks/memory.py                twenty seconds
    python benchmarks/memory.py --json FILE    the figures into this file as well

One user has 10,000 facts, a thousand have a hundred each, in a SQLite file in the folder for temporary files. Exit code
0: at the median, a request takes at most 0.2 ms where its user is in memory, and at most the 50 ms that a run waits
where the file is needed. 1: that does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import asdict
from itertools import cycle
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from overhead import machine
from platforms import loop_factory
from timed import Timed, heading

from hotloop import Memory
from hotloop.trace.stats import percentile

HEAVY, FACTS_OF_HEAVY = "heavy", 10_000
USERS, FACTS = [f"user {number}" for number in range(1000)], 100
FEW = 8  # facts of a user who gets them all
FLUSHED = 2000  # facts that are told at once
LENGTH = 512  # numbers of a vector
IN_MEMORY_MS, WAITED_MS = 0.2, 50.0
PEOPLE = ["Ann", "Paul", "Mila", "Karim", "her mother", "the dentist", "the neighbour", "her boss", "the cat"]
DO = ["likes", "wants", "owns", "sold", "bought", "dislikes", "visits", "collects", "cooks", "plays", "reads", "needs"]
SUCH = [
    "red",
    "old",
    "cheap",
    "quiet",
    "Italian",
    "electric",
    "wooden",
    "small",
    "Monday",
    "digital",
    "famous",
    "local",
]
THINGS = ["jazz", "coffee", "Lyon", "bicycles", "novels", "trains", "oat milk", "gardens", "cellos", "photos", "maps"]
MORE = ["shoes", "peanuts", "chess", "Berlin", "winter", "insulin", "tickets", "kitchens", "libraries", "islands"]
REQUESTS = [
    "Does Ann like jazz or coffee?",
    "Where can I buy cheap train tickets for winter?",
    "What did Paul sell?",
    "old cellos in Berlin",
    "Is the kitchen electric?",
    "What shall I read on the island?",
]


WIDTH = 52


def a_fact(chance: random.Random, number: int) -> str:
    """A sentence of a dozen words, most of which others have as well."""
    things = [f"{chance.choice(SUCH)} {chance.choice(THINGS + MORE)}" for _ in range(2)]
    return f"{chance.choice(PEOPLE)} {chance.choice(DO)} {' and '.join(things)}, number {number}"


async def fill(memory: Memory, user: str, facts: int) -> None:
    """Tell facts of a user."""
    chance = random.Random(user)
    for number in range(facts):
        memory.remember(a_fact(chance, number), user=user)
        if number % FLUSHED == FLUSHED - 1:
            await memory.flush()


async def measure(path: Path) -> list[Timed]:
    """All rows without vectors, and those with them."""
    async with aclosing(Memory(path)) as memory:
        await fill(memory, HEAVY, FACTS_OF_HEAVY)
        for user in USERS:
            await fill(memory, user, FACTS)
            await memory.flush()
    async with aclosing(Memory(path)) as memory:
        return [*await recalled(memory), *await changed(memory), await with_vectors(path.with_name("vectors.db"))]


async def recalled(memory: Memory) -> list[Timed]:
    """Requests, by where their user's facts are."""
    await fill(memory, "few", FEW)
    await memory.flush()
    first = await recalls(f"recall, first for a user of {FACTS} facts", memory, USERS, len(USERS), WAITED_MS)
    await recalls("", memory, ["few"], 1)
    return [
        await recalls(f"recall, user in memory, {FEW} facts", memory, ["few"], 2000, IN_MEMORY_MS),
        await recalls(f"recall, user in memory, {FACTS} facts", memory, USERS[-100:], 2000, IN_MEMORY_MS),
        first,
        await recalls(f"recall, user of {FACTS_OF_HEAVY:,} facts, in the file", memory, [HEAVY], 200, WAITED_MS),
    ]


async def changed(memory: Memory) -> list[Timed]:
    """What is told, deleted and handed out."""
    facts = iter(range(FLUSHED))
    users = iter(USERS)

    async def remember() -> None:
        memory.remember(f"tea number {next(facts)}", user="new")

    async def after_another() -> None:
        memory.remember(f"tea number {next(facts)}", user="new")
        await memory.flush()

    async def forget() -> None:
        user = next(users)
        await memory.forget(known[user], user=user)

    known = {user: (await memory.export(user))[0].id for user in USERS[:100]}
    return [
        await timed("remember", remember, 1000),
        await timed("remember, and flush", after_another, 200),
        await timed("forget", forget, 50),
        await timed("delete", lambda: memory.delete(next(users)), 5),
        await timed(f"export of {FACTS_OF_HEAVY:,} facts", lambda: memory.export(HEAVY), 5),
    ]


async def with_vectors(path: Path) -> Timed:
    """A request by its meaning as well, where the embedding takes no time."""
    chance = np.random.default_rng(0)
    async with aclosing(Memory(path, embed=lambda texts: chance.normal(size=(len(texts), LENGTH)))) as memory:
        await fill(memory, HEAVY, FACTS_OF_HEAVY)
        for _ in range(FACTS_OF_HEAVY // 64 + 1):  # each embeds some more
            await memory.flush()
        return await recalls(f"the same with vectors of {LENGTH} numbers", memory, [HEAVY], 100)


async def recalls(name: str, memory: Memory, users: Iterable[str], times: int, bound: float | None = None) -> Timed:
    """A row of requests, of these users in turn."""
    asking = zip(cycle(REQUESTS), cycle(users))

    async def recall() -> None:
        request, user = next(asking)
        await memory.recall(request, user=user)

    return await timed(name, recall, times, bound)


async def timed(name: str, work: Callable[[], Awaitable[Any]], times: int, bound: float | None = None) -> Timed:
    """A row for this work."""
    took = []
    for _ in range(times):
        started = time.perf_counter()
        await work()
        took.append((time.perf_counter() - started) * 1e3)
    return Timed(name, median(took), percentile(took, 95), bound)


def main() -> int:
    """Measure, print, and say by the exit code whether every bound is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", type=Path, help="write machine and figures to this file as well")
    asked = parser.parse_args()
    with TemporaryDirectory() as folder, asyncio.Runner(loop_factory=loop_factory()) as runner:
        rows = runner.run(measure(Path(folder) / "memory.db"))
    print("\n".join([heading(WIDTH), *(row.line(WIDTH) for row in rows)]))
    if asked.json:
        figures = {"machine": machine(), "rows": [asdict(row) for row in rows]}
        asked.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
