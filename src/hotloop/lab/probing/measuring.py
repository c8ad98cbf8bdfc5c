"""Sends what a plan says and takes down what comes back, cell by cell, as far as the service goes along."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from math import inf

import msgspec

from hotloop.errors import ModelError
from hotloop.lab.probing.asking import Answer, Asker, Heard, pause_after, understood
from hotloop.lab.probing.plan import Cell
from hotloop.lab.probing.samples import Place, Sample, Stretch, sample_of, stretches
from hotloop.lab.probing.texts import ProbePrompt, Texts
from hotloop.units import clock

Note = Callable[[Cell, int], None]
_IN_A_ROW = 3  # failures after which a cell is given up


class Measured(msgspec.Struct):
    """What came of one cell.

    `stopped` says why not all of it was asked; `refused` that its requests are such that the service will not take
    them. `busy` is the share of the time in which this process was at work: near 1 it is what was measured.
    """

    cell: Cell
    samples: list[Sample] = []
    stretches: list[Stretch] = []
    stopped: str = ""
    refused: bool = False
    busy: float = 0.0

    @property
    def asked(self) -> list[Sample]:
        """The samples that the cell is about: without those that came beside a wave."""
        return [sample for sample in self.samples if not sample.beside]

    @property
    def complete(self) -> list[Sample]:
        """The samples of complete replies."""
        return [sample for sample in self.samples if not sample.error]


class Measuring:
    """Measures cells one after the other into `found`, where each can be seen as it grows."""

    def __init__(self, asker: Asker, texts: Texts) -> None:
        self.found: list[Measured] = []
        self._asker = asker
        self._texts = texts
        self._too_long: float = inf  # tokens of a prompt that was refused
        self._too_many: float = inf  # requests at once of which most failed
        self._gone = ""

    async def measure(self, cells: Sequence[Cell], note: Note = lambda cell, ended: None) -> None:
        """Measure these cells; what the service refuses, and what it then would refuse too, is left out.

        `note` is told a cell and how many of its requests have ended, first 0.
        """
        for cell in cells:
            measured = Measured(cell, stopped=self._hopeless(cell))
            self.found.append(measured)
            if not measured.stopped:
                await _Run(measured, self._asker, self._texts, note).run()
                self._learn(measured)

    def _hopeless(self, cell: Cell) -> str:
        if self._gone:
            return "not asked, because the service no longer answered"
        if cell.prompt_tokens >= self._too_long:
            return f"not asked, because {self._too_long:,} tokens were refused"
        if cell.at_once >= self._too_many:
            return f"not asked, because most of {self._too_many:,} at once failed"
        return ""

    def _learn(self, measured: Measured) -> None:
        """What this cell says about the next ones."""
        cell, complete = measured.cell, len(measured.complete)
        if measured.refused:
            self._too_long = min(self._too_long, cell.prompt_tokens)
        elif cell.at_once > 1 and complete < len(measured.samples) / 2:
            self._too_many = min(self._too_many, cell.at_once)
        elif measured.stopped:
            self._gone = measured.stopped


class _Run:
    """One cell, being measured."""

    def __init__(self, measured: Measured, asker: Asker, texts: Texts, note: Note) -> None:
        self._measured = measured
        self._cell = measured.cell
        self._asker = asker
        self._texts = texts
        self._note = note
        self._prompt = _prompts(measured.cell, texts, asker.dialect.empty_content)
        self._ended = self._failures = self._since = 0

    async def run(self) -> None:
        cell, now = self._cell, clock()
        self._note(cell, 0)
        try:
            await self._asker.transport.warm(cell.at_once + min(cell.beside, 1))
        except ModelError as error:
            self._measured.stopped = f"{type(error).__name__}: {error}"
            return
        for _ in range(cell.primers):
            await self._ask(self._prompt(), cell.max_tokens)
        self._since, worked = now(), time.thread_time_ns()
        if cell.kind == "question":
            await self._side_by_side()
        else:
            await self._in_waves()
        passed = now() - self._since
        if now is time.perf_counter_ns and passed:
            self._measured.busy = (time.thread_time_ns() - worked) / passed

    async def _side_by_side(self) -> None:
        """Each request as soon as one before it has ended."""
        due = iter(range(self._cell.requests))

        async def work() -> None:
            for _ in due:
                await self._wave(0, 1)
                if self._measured.stopped:
                    return

        async with asyncio.TaskGroup() as workers:
            for _ in range(self._cell.at_once):
                workers.create_task(work())

    async def _in_waves(self) -> None:
        left, number = self._cell.requests, 0
        while left and not self._measured.stopped:
            size = min(left, self._cell.at_once)
            await self._wave(number, size)
            left, number = left - size, number + 1

    async def _wave(self, number: int, size: int) -> None:
        """So many requests at once, others beside them; their samples and stretches."""
        cell = self._cell
        prompts = [self._prompt() for _ in range(size)]
        wave = [Heard() for _ in prompts]
        async with asyncio.TaskGroup() as tasks:
            for prompt, heard in zip(prompts, wave, strict=True):
                tasks.create_task(self._ask(prompt, cell.max_tokens, heard))
            added = await self._beside(wave)
        answers = [understood(heard) for heard in wave]
        samples = [
            self._take(answer, prompt, Place(self._since, number, _running(answer, answers[:place])))
            for place, (answer, prompt) in enumerate(zip(answers, prompts, strict=True))
        ]
        later = [understood(heard) for _, heard in added]
        alongside = [
            self._take(answer, prompt, Place(self._since, number, _running(answer, answers), beside=True))
            for answer, (prompt, _) in zip(later, added, strict=True)
        ]
        together = zip(answers, samples, strict=True), zip(later, alongside, strict=True)
        self._measured.stretches += stretches(*map(list, together))
        if pause := max(map(pause_after, answers)):
            await asyncio.sleep(pause)

    async def _beside(self, wave: Sequence[Heard]) -> list[tuple[ProbePrompt, Heard]]:
        """What is asked once all of the wave is being answered, one by one while any of it still is."""
        asked: list[tuple[ProbePrompt, Heard]] = []
        if self._cell.beside:
            await asyncio.gather(*(heard.answering.wait() for heard in wave))
        while len(asked) < self._cell.beside and not all(heard.ended for heard in wave):
            prompt = self._texts.cold(self._cell.beside_tokens)
            asked.append((prompt, await self._ask(prompt, 1)))
        return asked

    async def _ask(self, prompt: ProbePrompt, max_tokens: int, heard: Heard | None = None) -> Heard:
        heard = await self._asker.ask(
            prompt.messages, max_tokens=max_tokens, session=prompt.key, heard=heard, **prompt.fields
        )
        self._ended += 1
        self._note(self._cell, self._ended)
        return heard

    def _take(self, answer: Answer, prompt: ProbePrompt, place: Place) -> Sample:
        """Take a request down, and see whether it is worth going on."""
        measured = self._measured
        sample = sample_of(answer, prompt, place)
        measured.samples.append(sample)
        self._failures = self._failures + 1 if sample.error else 0
        if answer.error is not None and not answer.error.retryable:
            measured.stopped, measured.refused = sample.error, True
        elif self._failures >= max(_IN_A_ROW, self._cell.at_once):
            measured.stopped = sample.error
        return sample


def _running(answer: Answer, others: Sequence[Answer]) -> int:
    """How many of the others were running when this one was asked."""
    return sum(other.asked <= answer.asked < other.ended for other in others)


def _prompts(cell: Cell, texts: Texts, empty: str | None) -> Callable[[], ProbePrompt]:
    """Makes the prompts of a cell."""
    if cell.question:
        return lambda: texts.fixed(cell.question)
    if cell.kind == "cached":
        return texts.cached(cell.prompt_tokens)
    if cell.kind == "turns":
        return texts.conversation(cell.prompt_tokens, empty)
    return lambda: texts.cold(cell.prompt_tokens)
