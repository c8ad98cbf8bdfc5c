"""What the CPU of a turn grows by with the history before it, for hotloop, for the bytes alone, and for frameworks.

A turn is a small prompt, one call and an answer: two requests. The history before it is made of turns of mixed sizes
(conversing.py). Contestants take turns at each size, round after round; a slope is the least-squares line through one
round's medians, in µs of CPU for each KB of history.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression, median

import environments
from conversing import KB
from figures import Row, compare, ratio_at_least, ratio_at_most, show, table
from processes import Child, Service, Unusable

SIZES = (1, 4, 16, 64, 256, 1024)  # KB
QUICK = 256
ROUNDS, SLOW_ROUNDS, QUICK_ROUNDS = 7, 4, 2
TURNS = 8
COPIES = 3.0  # times a copy of each body is the most that hotloop itself may add
SENDING = 2.0  # times what the floor adds is the most that hotloop may add over HTTP
FRAMEWORKS = ("openai_agents", "pydantic_ai")
OURS, SENT, INSIDE, KEPT, COPIED = "hotloop", "floor", "unsent", "kept", "copying"
NAMES = {INSIDE: "hotloop, no network", KEPT: "the same, kept in a file", COPIED: "a copy of each body"}

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Point:
    """Turns of one round after a history of so many bytes: the median of their CPU, in µs."""

    bytes: float
    us: float


@dataclass(frozen=True)
class Growth:
    """A contestant's points, by round."""

    name: str
    rounds: list[list[Point]]

    @property
    def slopes(self) -> list[float]:
        """µs a KB, of each round."""
        return [slope(points) for points in self.rounds]

    def cells(self) -> list[str]:
        """The line as text."""
        medians = [median(point.us for point in points) for points in zip(*self.rounds, strict=True)]
        cells = [f"{show(us / 1e3)} ms" for us in medians] + [f"{median(self.slopes):.3f} µs"]
        return [NAMES.get(self.name, self.name), *(cell.rjust(9) for cell in cells)]


def slope(points: Sequence[Point]) -> float:
    """µs that a KB of history adds to a turn, by least squares."""
    return linear_regression([point.bytes / KB for point in points], [point.us for point in points]).slope


class Talker(Child):
    """A contestant in conversation."""

    def __init__(self, name: str, service: Service) -> None:
        python: Path | str = environments.python_of(name) if name in FRAMEWORKS else sys.executable
        super().__init__(name, python, "conversing.py", name, str(service.port))

    def measure(self, kb: int) -> Point:
        """Turns after so much history. Raises Unusable when a turn fails."""
        try:
            self.write(json.dumps({"kb": kb, "turns": TURNS}))
        except BrokenPipeError:
            raise Unusable(f"{self.name} died:\n{self.complaint()}") from None
        figures = json.loads(self.read())
        if "error" in figures:
            raise Unusable(f"{self.name} after {kb} KB: {figures['error']}\n{self.complaint()}")
        return Point(figures["bytes"], median(figures["cpu"]) * 1e6)


def measure(quick: bool, frameworks: bool, progress: Progress) -> list[Growth]:
    """Everybody's growth. Raises Unusable when a framework's environment is missing or a turn fails."""
    names = [OURS, SENT, INSIDE, KEPT, COPIED, *(FRAMEWORKS if frameworks else ())]
    if missing := [name for name in FRAMEWORKS if frameworks and not environments.ready(name)]:
        raise Unusable(f"not made yet: {', '.join(missing)}; run: {sys.executable} benchmarks/environments.py")
    sizes = [kb for kb in SIZES if not quick or kb <= QUICK]
    rounds = QUICK_ROUNDS if quick else SLOW_ROUNDS if frameworks else ROUNDS
    with ExitStack() as stack:
        service = stack.enter_context(Service())
        talkers = [stack.enter_context(Talker(name, service)) for name in names]
        taken = [_round(talkers, sizes, f"round {number} of {rounds}", progress) for number in range(rounds)]
    return [Growth(name, [each[name] for each in taken]) for name in names]


def _round(talkers: list[Talker], sizes: list[int], told: str, progress: Progress) -> dict[str, list[Point]]:
    """Everybody's points, by name; who comes first changes from size to size."""
    points: dict[str, list[Point]] = {talker.name: [] for talker in talkers}
    for place, kb in enumerate(sizes):
        progress(f"{kb:,} KB of history, {told}")
        for talker in talkers[:: -1 if place % 2 else 1]:
            points[talker.name].append(talker.measure(kb))
    return points


def rows(growths: Sequence[Growth]) -> list[Row]:
    """The slopes next to each other, and what must hold of them."""
    slopes = {growth.name: growth.slopes for growth in growths}
    sent = compare("hotloop", "µs", slopes[OURS], "floor", slopes[SENT], ratio_at_most(SENDING))
    inside = [
        compare(NAMES[name], "µs", slopes[name], NAMES[COPIED], slopes[COPIED], ratio_at_most(COPIES))
        for name in (INSIDE, KEPT)
    ]
    others = [compare(name, "µs", slopes[name], "hotloop", slopes[OURS]) for name in FRAMEWORKS if name in slopes]
    others.sort(key=lambda row: row.ratio)
    return [sent, *inside, *(ratio_at_least(20).judge(row) if row is others[0] else row for row in others)]


def shown(growths: Sequence[Growth]) -> str:
    """The tables for a person."""
    sizes = SIZES[: len(growths[0].rounds[0])]
    heading = ["", *(f"{kb:,} KB".rjust(9) for kb in sizes), "a KB".rjust(9)]
    slopes = table(["a KB of history adds", "", "other", "", "ratio", "95 % interval", "bound", "", ""], rows(growths))
    return f"{table(heading, growths)}\n\n{slopes}"
