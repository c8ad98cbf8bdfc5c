"""Two contestants' figures side by side: medians, the ratio with its interval, and whether the bound is met."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Protocol

RESAMPLES = 2000
ROWS = "<>><>>"
"""How the cells of rows are set: figures to the right."""


@dataclass(frozen=True)
class Row:
    """One line of a table: both medians, and the median of the rounds' ratios with its 95 % interval."""

    name: str
    unit: str
    figure: float
    against: str
    other: float
    ratio: float
    low: float
    high: float
    bound: str = ""
    met: bool | None = None
    other_met: bool | None = None
    note: str = ""

    def cells(self) -> list[str]:
        """The line as text."""
        verdict = {True: "met", False: "NOT MET", None: ""}[self.met]
        if self.met is False and self.other_met is False:
            verdict += f", nor by {self.against}"
        figure, other = (f"{show(value)} {self.unit}" for value in (self.figure, self.other))
        interval = f"{show(self.low)} .. {show(self.high)}"
        return [self.name, figure, other, self.against, show(self.ratio), interval, self.bound, verdict, self.note]


@dataclass(frozen=True)
class Bound:
    """What must hold, of the ratio or of the figure itself."""

    text: str
    holds: Callable[[float], bool]
    of_ratio: bool

    def judge(self, row: Row) -> Row:
        """The row with this bound and its verdict."""
        met = self.holds(row.ratio if self.of_ratio else row.figure)
        return replace(row, bound=self.text, met=met, other_met=None if self.of_ratio else self.holds(row.other))


def ratio_at_most(limit: float) -> Bound:
    """The figure is at most `limit` times the other."""
    return Bound(f"ratio <= {limit:g}", lambda ratio: ratio <= limit, of_ratio=True)


def ratio_at_least(limit: float) -> Bound:
    """The figure is at least `limit` times the other."""
    return Bound(f"ratio >= {limit:g}", lambda ratio: ratio >= limit, of_ratio=True)


def at_most(limit: float, unit: str) -> Bound:
    """The figure itself is at most `limit`."""
    return Bound(f"<= {show(limit)} {unit}", lambda figure: figure <= limit, of_ratio=False)


def at_least(limit: float, unit: str) -> Bound:
    """The figure itself is at least `limit`."""
    return Bound(f">= {show(limit)} {unit}", lambda figure: figure >= limit, of_ratio=False)


def compare(
    name: str,
    unit: str,
    figures: Sequence[float],
    against: str,
    others: Sequence[float],
    bound: Bound | None = None,
) -> Row:
    """One row from figures taken in turns: `figures[i]` right before or after `others[i]`."""
    ratios = [figure / other for figure, other in zip(figures, others, strict=True)]
    row = Row(name, unit, median(figures), against, median(others), median(ratios), *interval(ratios))
    return bound.judge(row) if bound else row


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the median, by bootstrap."""
    draw = random.Random(0)
    medians = sorted(median(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return medians[RESAMPLES // 40], medians[-RESAMPLES // 40]


def show(value: float) -> str:
    """Three digits that matter."""
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{digits}f}"


class Line(Protocol):
    """What a table shows in one line."""

    def cells(self) -> list[str]:
        """The line as text."""


def table(heading: list[str], lines: Sequence[Line], align: str = ROWS) -> str:
    """Lines under a heading; see `columns`."""
    return columns([heading, *(line.cells() for line in lines)], align)


def columns(lines: Sequence[list[str]], align: str) -> str:
    """Cells in columns, each "<" or ">" as `align` says, those after them "<"."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    sides = align.ljust(len(widths), "<")[: len(widths)]
    return "\n".join(
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(cells, sides, widths, strict=True)).rstrip()
        for cells in lines
    )
