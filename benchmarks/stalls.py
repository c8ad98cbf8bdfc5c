"""How long users wait for a conversation to be summarized: beside their turns, and while they wait.

On the virtual clock, where every time is exact: a reply takes 0.7 s, a summary 2 s. The same conversation without a
limit says what a turn takes when nothing is summarized; what is more than that was added.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hotloop import Agent, Context, Model
from hotloop.testing import ScriptedModel, run_virtual
from hotloop.units import NS_PER_MS, clock

TURNS = 60
INSTRUCTIONS = "You are the assistant of an order desk."
PROMPT = "Question {}: " + "the parcel has not come, the customer has asked twice, and nobody knows where it is. " * 3
ANSWER = "It has left the hub. " * 12
SUMMARY = "The customer asked for several parcels; each has left the hub. " * 4
TTFT, TPOT, SUMMARY_SECONDS = 0.1, 0.01, 2.0
LIMIT = 2000  # tokens: about fifteen turns
PAUSE = 8.0  # seconds in which the user reads and writes


@dataclass(frozen=True)
class Way:
    """When summaries are made, and how long the user takes between two turns."""

    name: str
    compact_at: float
    pause: float
    stalls: bool = False


WAYS = (
    Way("in the background, users take 8 s", 0.6, PAUSE),
    Way("in the background, users take no time", 0.6, 0.0),
    Way("when the limit is reached", 1.0, 0.0, stalls=True),
)


@dataclass(frozen=True)
class Stall:
    """How many summaries a conversation had, and what they added to each of its turns, in ms."""

    way: Way
    summaries: int
    added: list[float]

    @property
    def held(self) -> bool:
        """Whether there were summaries, and users waited for them if, and only if, they were to."""
        return self.summaries > 0 and any(self.added) == self.way.stalls

    def cells(self) -> list[str]:
        """The line as text."""
        waited = sum(each > 0 for each in self.added)
        cells = [str(self.summaries), str(waited), f"{max(self.added):,.0f} ms", f"{sum(self.added):,.0f} ms"]
        return [self.way.name, *(cell.rjust(12) for cell in cells)]


HEADING = ["", *(cell.rjust(12) for cell in ("summaries", "turns held up", "the longest", "all turns"))]


def measure() -> list[Stall]:
    """Every way."""
    return [run_virtual(_stall(way)) for way in WAYS]


async def _stall(way: Way) -> Stall:
    plain, _ = await _converse(Context(), way.pause)
    context = Context(limit=LIMIT, compact_at=way.compact_at, summarizer=_summarizer())
    times, summaries = await _converse(context, way.pause)
    return Stall(way, summaries, [now - was for now, was in zip(times, plain, strict=True)])


def _summarizer() -> Model:
    tokens = len(SUMMARY.split())
    return Model(name="small", endpoint=ScriptedModel(lambda _: SUMMARY, ttft=0.0, tpot=SUMMARY_SECONDS / (tokens - 1)))


async def _converse(context: Context, pause: float) -> tuple[list[float], int]:
    """The ms of each turn, and how many summaries there were."""
    model = ScriptedModel(lambda _: ANSWER, ttft=TTFT, tpot=TPOT)
    now, times, summaries = clock(), [], 0
    async with Agent(
        model="m", endpoint=model, instructions=INSTRUCTIONS, context=context, sessions=":memory:"
    ) as agent:
        session = agent.session("benchmark")
        for number in range(TURNS):
            started = now()
            result = await session.run(PROMPT.format(number))
            times.append((now() - started) / NS_PER_MS)
            summaries += len(result.trace.facts.get("compaction", ()))
            await asyncio.sleep(pause)
    return times, summaries
