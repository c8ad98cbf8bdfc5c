"""Predicted against real times, as characters for a terminal and as an SVG for a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

COLUMNS, LINES = 64, 20
SIZE, MARGIN = 480, 56
TICKS = (100, 200, 500, 1000, 2000, 5000)


@dataclass(frozen=True)
class Point:
    """A combination: milliseconds, and its name."""

    real: float
    predicted: float
    name: str


@dataclass(frozen=True)
class Scale:
    """Milliseconds on a logarithmic axis from 0 to 1."""

    low: float
    high: float

    def at(self, milliseconds: float) -> float:
        """Where a time is on it."""
        return math.log(milliseconds / self.low) / math.log(self.high / self.low)


def scale_of(points: Sequence[Point]) -> Scale:
    """An axis on which all of them are."""
    times = [time for point in points for time in (point.real, point.predicted)]
    return Scale(min(times) / 1.2, max(times) * 1.2)


def text_plot(points: Sequence[Point]) -> str:
    """A plot in characters: a point on the line was predicted as it came."""
    scale = scale_of(points)
    grid = [[" "] * COLUMNS for _ in range(LINES)]

    def put(across: float, up: float, mark: str) -> None:
        grid[LINES - 1 - round(up * (LINES - 1))][round(across * (COLUMNS - 1))] = mark

    for column in range(COLUMNS):
        put(column / (COLUMNS - 1), column / (COLUMNS - 1), "·")
    for point in points:
        put(scale.at(point.real), scale.at(point.predicted), "●")
    ticks = [tick for tick in TICKS if scale.low < tick < scale.high]
    labels = {LINES - 1 - round(scale.at(tick) * (LINES - 1)): f"{tick:,}" for tick in ticks}
    lines = [f"{labels.get(place, ''):>7} │{''.join(line)}" for place, line in enumerate(grid)]
    below = [" "] * (COLUMNS + 8)
    for tick in ticks:
        text = f"{tick:,}"
        start = round(scale.at(tick) * (COLUMNS - 1)) - len(text) // 2
        below[start : start + len(text)] = text
    frame = [f"{'':>7} └{'─' * COLUMNS}", f"{'':>8} {''.join(below).rstrip()}"]
    return "\n".join(["predicted p50, ms (up), against the real one (across)", *lines, *frame])


def svg_plot(points: Sequence[Point], *, band: float) -> str:
    """The same as an SVG, with the band in which a prediction is off by no more than this share."""
    scale = scale_of(points)

    def x(milliseconds: float) -> float:
        return MARGIN + scale.at(milliseconds) * SIZE

    def y(milliseconds: float) -> float:
        return 16 + (1 - scale.at(milliseconds)) * SIZE

    def line(x1: float, y1: float, x2: float, y2: float, look: str) -> str:
        return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {look}/>'

    low, high = scale.low, scale.high
    corners = ((low, low * (1 + band)), (high / (1 + band), high), (high, high), (high, high * (1 - band)))
    corners = (*corners, (low / (1 - band), low), (low, low))
    inside = " ".join(f"{x(across):.1f},{y(up):.1f}" for across, up in corners)
    parts = [f'<polygon points="{inside}" fill="#e8eef7"/>', line(x(low), y(low), x(high), y(high), 'stroke="#7a8fb0"')]
    for tick in (tick for tick in TICKS if low < tick < high):
        parts.append(line(x(tick), y(low), x(tick), y(high), 'stroke="#ddd"'))
        parts.append(line(x(low), y(tick), x(high), y(tick), 'stroke="#ddd"'))
        parts.append(f'<text x="{x(tick):.1f}" y="{y(low) + 16:.1f}" text-anchor="middle">{tick:,}</text>')
        parts.append(f'<text x="{x(low) - 6:.1f}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:,}</text>')
    parts += [
        f'<circle cx="{x(point.real):.1f}" cy="{y(point.predicted):.1f}" r="4" fill="#1f4e9c" fill-opacity="0.6">'
        f"<title>{_plain(point.name)}: {point.predicted:,.0f} ms predicted, {point.real:,.0f} ms real</title></circle>"
        for point in points
    ]
    middle = MARGIN + SIZE / 2
    parts.append(f'<text x="{middle}" y="{SIZE + 52}" text-anchor="middle">real p50 after the change, ms</text>')
    parts.append(f'<text x="{middle}" y="12" text-anchor="middle">predicted p50, ms; the band is {band:.0%} off</text>')
    style = 'font-family="sans-serif" font-size="12" fill="#333"'
    size = f'viewBox="0 0 {SIZE + MARGIN + 16} {SIZE + 60}"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>', *parts, "</svg>", ""])


def _plain(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
