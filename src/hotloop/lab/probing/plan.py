"""What a probe measures, as data: cells, each of which is some requests of one kind, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

import msgspec

Kind = Literal["question", "steady", "cold", "cached", "turns", "at once", "beside"]


class Cell(msgspec.Struct, frozen=True):
    """Requests of one kind: `requests` of them, in waves of `at_once`, with prompts and replies of so many tokens.

    All requests of a "question" are the same one, each asked as soon as one before it has ended. "steady" and "cold"
    prompts are new from their first line on; "cached" ones differ in their last line; those of
    "turns" end a conversation with a long tool result. While a wave is being decoded, `beside` more requests come one
    by one, for a single token each, with prompts of `beside_tokens`.
    """

    kind: Kind
    prompt_tokens: int
    requests: int
    at_once: int = 1
    max_tokens: int = 64
    beside: int = 0
    beside_tokens: int = 100
    question: str = ""

    @property
    def title(self) -> str:
        """The cell in a few words."""
        match self.kind:
            case "question":
                return f"{self.requests} requests, {self.at_once} at a time"
            case "steady":
                return f"{self.requests} in a row"
            case "cold" | "cached":
                return f"{self.prompt_tokens:,} tokens, {self.kind}"
            case "turns":
                return f"after 3 turns, {self.prompt_tokens:,}-token result"
            case "at once":
                return f"{self.at_once} at once"
            case "beside":
                return f"{self.at_once} beside {self.beside_tokens:,}-token prompts"

    @property
    def primers(self) -> int:
        """Requests that only have a prefix cached."""
        return int(self.kind in ("cached", "turns"))

    @property
    def total(self) -> int:
        """All requests that it sends."""
        return self.primers + self.requests + self.beside * self.waves

    @property
    def waves(self) -> int:
        """How many times `at_once` requests are sent."""
        return -(-self.requests // self.at_once)


class Cost(NamedTuple):
    """What a plan takes, about."""

    requests: int
    input_tokens: int
    output_tokens: int


FULL = (
    Cell("steady", 100, 100),
    *(Cell("cold", tokens, 5, max_tokens=8) for tokens in (500, 2000, 8000)),
    *(Cell("cached", tokens, 5, max_tokens=8) for tokens in (500, 2000, 8000)),
    Cell("turns", 3000, 5, max_tokens=8),
    Cell("at once", 100, 30, at_once=10, max_tokens=128, beside=10),
    Cell("at once", 100, 100, at_once=50, max_tokens=128, beside=10),
    Cell("at once", 100, 100, at_once=100, max_tokens=128, beside=10),
    Cell("beside", 100, 16, at_once=4, max_tokens=96, beside=3, beside_tokens=2000),
)
QUICK = (
    Cell("steady", 100, 10),
    *(Cell("cold", tokens, 3, max_tokens=8) for tokens in (500, 2000)),
    *(Cell("cached", tokens, 3, max_tokens=8) for tokens in (500, 2000)),
    Cell("at once", 100, 16, at_once=8, beside=2),
)
ASKED_FIRST = Cost(requests=8, input_tokens=4500, output_tokens=1000)  # by `abilities`


def cost(cells: Iterable[Cell]) -> Cost:
    """What these cells and the questions before them take."""
    requests, prompts, replies = ASKED_FIRST
    for cell in cells:
        beside = cell.beside * cell.waves
        requests += cell.total
        prompts += (cell.requests + cell.primers) * cell.prompt_tokens + beside * cell.beside_tokens
        replies += cell.requests * cell.max_tokens + cell.primers * cell.max_tokens + beside
    return Cost(requests, prompts, replies)
