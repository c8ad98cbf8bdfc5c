"""What is simulated, as data that a fault changes: an agent, its tools, its service, and what the model does."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Literal

import msgspec

from hotloop.lab.profiles import Profile
from hotloop.models.transport import Transport

About = Literal["question", "result", "world"]


class Step(msgspec.Struct, frozen=True):
    """One call that the model makes: of `tool`, about something that is in the question, or that the last result named,
    or about the world, which is the same in every run."""

    tool: str
    about: About = "question"


class Lookup(msgspec.Struct, frozen=True):
    """A tool: it takes `seconds`, give or take a share of `spread`, in one of ten calls `tail` times as many.

    Its results are of `size` bytes, a share of its calls `fails`; `options` are those of `hotloop.tool`.
    """

    seconds: float
    spread: float = 0.1
    tail: float = 1.0
    size: int = 120
    fails: float = 0.0
    options: dict[str, Any] = {}


class Setup(msgspec.Struct, kw_only=True):
    """One agent and its service, asked `runs` questions, `at_once` of them at a time; times in seconds.

    The model goes through `rounds`, each the calls of one reply, makes its first call `again` so many times, and
    answers in `answer` words. With `flawed` calls, one of four runs begins with one whose arguments are wrong, and in
    another the service cannot read the first.

    There are `questions` different ones (None: all are), each with a document of so many words; `instructions` words
    are in front of them, with a `clock` after the time. Documents and answers are longer or shorter by a share of
    `varied`. Every reply keeps the event loop `blocked` for so long.

    To open a connection takes `opening`; those that are `kept` are used again. While the middle third of the runs is
    under way, `neighbours` have the service write long texts. `wires` are put around its transport.
    """

    name: str
    profile: Profile
    tools: dict[str, Lookup]
    rounds: list[list[Step]]
    seed: int = 0
    runs: int = 12
    at_once: int = 1
    session: bool = False
    again: int = 0
    answer: int = 60
    flawed: bool = False
    questions: int | None = None
    document: int = 20
    instructions: int = 300
    clock: bool = False
    varied: float = 0.0
    blocked: float = 0.0
    opening: float = 0.004
    kept: bool = True
    neighbours: int = 0
    wires: list[Callable[[Transport], Transport]] = []
    policy: dict[str, Any] = {}
    agent: dict[str, Any] = {}
    service: dict[str, Any] = {}

    def case(self, run: int) -> int:
        """The number of the question that a run asks."""
        return run if self.questions is None else run % self.questions

    def length(self, what: str, case: int, count: int) -> int:
        """How many words it has of which there usually are so many."""
        return round(count * Random(f"{self.seed} {what} {case}").lognormvariate(0.0, self.varied))
