"""A contestant in conversation, in a process of its own: reads one order a line, writes one line of figures.

    python conversing.py NAME PORT

An order is {"kb", "turns"}: let a new conversation grow to so many kilobytes, then measure so many small turns.
`growth.py` writes the orders. Every answer is compared with the right one, and every call counted.
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
import json
import logging
import sys
import time
import traceback
import warnings
from typing import Any

from platforms import CLIENT_CPU, loop_factory, pin
from workload import Converse, Page, Tally, Task

KB = 1024
SIZES = [(80, 300), (120, 24000), (900, 150), (60, 1500), (3000, 2500), (100, 12000)]
"""Characters of a turn's prompt and of its page, in turn: eight KB a turn, two a message."""
SMALL = (60, 60)
WARM_TURNS = 2  # uncounted, before those that are measured
CALL = 150  # characters of JSON around a call and a result
WORDS = 'The valve is closed by hand, "clockwise", until it stops;\nsee the figure on the next page.\n'


class WrongAnswer(Exception):
    """A turn did not give the only right answer, or did not call its tool."""


class Talk:
    """A conversation and about how many bytes its messages are."""

    def __init__(self, task: Task, turn: Converse) -> None:
        self.size = 0
        self._task, self._turn = task, turn

    async def turn(self, prompt: int, page: int) -> float:
        """The CPU seconds of one turn with a prompt and a page of so many characters."""
        asked, Page.text = text(prompt), text(page)
        calls, cpu = Tally.calls, time.process_time()
        answer = await self._turn(asked, lambda _: None)
        cpu = time.process_time() - cpu
        if (answer, Tally.calls) != (self._task.answer, calls + 1):
            raise WrongAnswer(f"{Tally.calls - calls} calls and {answer!r:.200}")
        self.size += CALL + sum(len(json.dumps(each)) for each in (asked, Page.text, answer))
        return cpu

    async def grow(self, size: int) -> None:
        """Turns of mixed sizes until there are so many bytes."""
        for prompt, page in itertools.cycle(SIZES):
            if (left := size - self.size) <= 0:
                return
            await self.turn(min(prompt, left), min(page, left))

    async def measure(self, turns: int) -> dict[str, Any]:
        """The CPU of each of so many small turns, and the size in the middle of them."""
        for _ in range(WARM_TURNS):
            await self.turn(*SMALL)
        before = self.size
        cpu = [await self.turn(*SMALL) for _ in range(turns)]
        return {"cpu": cpu, "bytes": (before + self.size) / 2}


def text(characters: int) -> str:
    """So much of an ordinary text."""
    return (WORDS * (characters // len(WORDS) + 1))[:characters]


def main(name: str, port: int) -> None:
    """Serve orders from standard input until it ends."""
    pin(CLIENT_CPU)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    task = Task("C", f"http://127.0.0.1:{port}/0/0/v1")
    converse = importlib.import_module(f"contestants.{name}").converse

    async def obey(order: dict[str, Any]) -> dict[str, Any]:
        talk = Talk(task, converse(task))
        await talk.grow(order["kb"] * KB)
        return await talk.measure(order["turns"])

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        for line in sys.stdin:
            try:
                figures = runner.run(obey(json.loads(line)))
            except Exception as error:
                traceback.print_exc()
                figures = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
