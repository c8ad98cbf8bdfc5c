"""What goes into an engine and what comes out: requests as work, and the moments of their tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec


class WorkPrompt(msgspec.Struct, frozen=True, gc=False):
    """A prompt's length in tokens, and the keys of its whole blocks (see `prefixcache`)."""

    tokens: int = 0
    blocks: tuple[int, ...] = ()


class Work:
    """One request in an engine, which will make `tokens` tokens of it; moments are nanoseconds of its clock, above 0.

    `made` of them are made, the first at `first` and the latest at `last`; `due` is the moment of the earliest that was
    not delivered, 0 if there is none. `deliver` is called when there are more, and when the work is refused: `refused`
    work is told at its arrival and not begun. `slowdown` is how many times as long as usual it takes to the first
    token. With `streamed` off only the last token is of interest.
    """

    __slots__ = (
        "admitted",
        "arrived",
        "cached",
        "deliver",
        "due",
        "first",
        "front",
        "gap",
        "gone",
        "last",
        "made",
        "prefill",
        "prompt",
        "refused",
        "slowdown",
        "streamed",
        "tokens",
    )

    def __init__(
        self,
        tokens: int,
        deliver: Callable[[Work], None],
        prompt: WorkPrompt = WorkPrompt(),  # noqa: B008  frozen
        *,
        streamed: bool = True,
        refused: bool = False,
        slowdown: float = 1.0,
    ) -> None:
        self.tokens = tokens
        self.deliver = deliver
        self.prompt = prompt
        self.streamed = streamed
        self.refused = refused
        self.slowdown = slowdown
        self.arrived = self.admitted = self.first = self.last = self.due = 0
        self.front = self.prefill = self.gap = self.cached = self.made = 0
        self.gone = False


class Engine(Protocol):
    """A service's way of working: requests go in, the moments of their tokens come out. It has no clock of its own."""

    def arrive(self, work: Work, now: int) -> None:
        """A request was sent."""

    def leave(self, work: Work, now: int) -> None:
        """Nobody waits for it any longer."""

    def next(self) -> int | None:
        """When something happens next; None: nothing ever does, until work arrives."""

    def advance(self, now: int) -> Sequence[Work]:
        """Let everything happen that is due by now; the works that have something to deliver, perhaps repeatedly."""
