"""What our layout is worth on a service that caches prefixes: the embedded model, in a conversation of 20 turns.

Every turn the model is told the time: last, as `Context(volatile=...)` does, or in the instructions, as is usual. The
engine has one slot, so the two conversations come one after the other, and in alternating order if there are several
rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from layouts import Rearranged, time_first, time_of

from hotloop import Agent, Context
from hotloop.models.local.engine import LocalTransport
from hotloop.models.local.weights import fetch_weights

TURNS, ROUNDS = 20, 2
SHOWN = (2, 5, 10, 15, 20)
INSTRUCTIONS = "You are the assistant of an order desk. Be brief."
PROMPT = "Order {} was sent from Shenzhen on Monday with {} items, and the customer asks for it. What do you say?"
OURS, NAIVE = "the time, said last", "the time in the instructions"
STEADY = 1.25  # times the new tokens of turn 2 are the most that our last turn may have the engine read

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Turn:
    """What the engine told of a turn: ms to the first token, and tokens of the prompt, all and cached."""

    ttft: float
    prompt: int
    cached: int

    @property
    def new(self) -> int:
        """The tokens that it had to read."""
        return self.prompt - self.cached


@dataclass(frozen=True)
class Talk:
    """A layout's conversations, one a round."""

    name: str
    rounds: list[list[Turn]]

    def ttft(self, turn: int) -> float:
        """ms to the first token of this turn, counted from 1."""
        return median(turns[turn - 1].ttft for turns in self.rounds)

    def new(self, turn: int) -> float:
        """Tokens of this turn's prompt that the engine had to read."""
        return median(turns[turn - 1].new for turns in self.rounds)

    @property
    def growth(self) -> float:
        """How many times that of turn 2 the first token of the last turn takes."""
        return median(turns[-1].ttft / turns[1].ttft for turns in self.rounds)

    def cells(self) -> list[str]:
        """The line as text."""
        shown = [turn for turn in SHOWN if turn <= len(self.rounds[0])]
        tokens = [f"{each.cached:,} of {each.prompt:,}" for each in (self.rounds[0][turn - 1] for turn in shown)]
        times = [f"{self.ttft(turn):,.0f} ms" for turn in (2, shown[-1])]
        times.append(f"{self.growth:.1f}")
        return [self.name, *(cell.rjust(14) for cell in tokens), *(cell.rjust(8) for cell in times)]


def heading(talks: list[Talk]) -> list[str]:
    """Of the table."""
    shown = [turn for turn in SHOWN if turn <= len(talks[0].rounds[0])]
    tokens = [f"turn {turn}".rjust(14) for turn in shown]
    return ["cached tokens", *tokens, *(name.rjust(8) for name in ("TTFT 2", f"TTFT {shown[-1]}", "ratio"))]


def held(talks: list[Talk]) -> bool:
    """Whether our turns have no more to read however long the conversation is, and so begin earlier than the others."""
    ours, naive = talks
    last = len(ours.rounds[0])
    return ours.new(last) <= STEADY * ours.new(2) and ours.ttft(last) < naive.ttft(last)


async def measure(quick: bool, progress: Progress) -> list[Talk]:
    """Both layouts. Raises WeightsError when the model cannot be had, ConfigError when llama.cpp is not installed."""
    fetch_weights()
    ours, naive = Talk(OURS, []), Talk(NAIVE, [])
    turns, rounds = (TURNS // 2, 1) if quick else (TURNS, ROUNDS)
    for number in range(rounds):
        for talk in (ours, naive)[:: -1 if number % 2 else 1]:
            talk.rounds.append(await _converse(talk is ours, turns, progress))
    return [ours, naive]


async def _converse(ours: bool, turns: int, progress: Progress) -> list[Turn]:
    told = iter(range(1, turns + 1))
    options: dict[str, Any] = {"context": Context(volatile=lambda: time_of(next(told)))} if ours else {}
    engine = LocalTransport()
    done = []
    async with Agent(
        model="smollm2",
        endpoint=engine if ours else Rearranged(engine, time_first),
        instructions=INSTRUCTIONS,
        max_tokens=16,
        sessions=":memory:",
        **options,
    ) as agent:
        await agent.warm()
        session = agent.session("benchmark")
        for number in range(turns):
            progress(f"the time, {'said last' if ours else 'in the instructions'}: turn {number + 1} of {turns}")
            facts = (await session.run(PROMPT.format(20250101 + number, number + 1))).trace.turns[-1]
            usage = facts.usage
            done.append(Turn((facts.ttft or 0) / 1e6, usage.input_tokens or 0, usage.cached_tokens or 0))
    return done
