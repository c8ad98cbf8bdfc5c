"""What has happened in a run, as far as it tells what comes next: the prompt, and turn by turn the calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec

from hotloop.tools.plan.references import value_of

START = "^"
_LONGEST = 256 * 1024  # characters of a result that is looked into


class Seen(msgspec.Struct, dict=True):
    """A call that was made, its arguments as the model wrote them, and what it read of the result.

    `content` is None if that is not known, or is too long to be looked into.
    """

    tool: str
    arguments: dict[str, Any]
    content: str | None = None
    failed: bool = False
    read_only: bool = False

    @cached_property
    def value(self) -> Any:
        """The result, decoded if it is JSON; None if there is none to copy from."""
        usable = self.content is not None and not self.failed and len(self.content) <= _LONGEST
        return value_of(self.content) if usable and self.content is not None else None


class Past(msgspec.Struct):
    """A run so far."""

    prompt: str
    turns: list[Sequence[Seen]] = []

    def latest(self, tool: str, *, answered: bool) -> Seen | None:
        """The last call of this tool; with `answered` the last whose result is there to copy from."""
        calls = (each for each in self.calls_back() if each.tool == tool)
        return next((each for each in calls if not answered or each.value is not None), None)

    def calls_back(self) -> Iterator[Seen]:
        """All calls, the last one first."""
        return (each for turn in reversed(self.turns) for each in reversed(turn))

    def given(self, tool: str, argument: str) -> list[Any]:
        """The values that this argument has had in calls of this tool."""
        calls = (each for each in self.calls_back() if each.tool == tool)
        return [each.arguments[argument] for each in calls if argument in each.arguments]

    def contexts(self) -> list[str]:
        """What was done last, in words that come again in other runs: of two turns, then of one."""
        steps = [START, *(_step(turn) for turn in self.turns)]
        return [" > ".join(steps[-2:]), steps[-1]] if self.turns else [START]


def _step(turn: Sequence[Seen]) -> str:
    """A turn as the names of its tools, each once, with a mark where all calls of one failed."""
    failed = {each.tool: all(other.failed for other in turn if other.tool == each.tool) for each in turn}
    return " + ".join(f"{name}!" if failed[name] else name for name in sorted(failed))
