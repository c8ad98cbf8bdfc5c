"""Fitting a + b x + d x² with no coefficient below zero, to points whose relative errors count."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

_PAYS = 0.5  # a further term is worth having if it leaves at most this share of the squared error
_EXACT, _SIGMAS = 0.02, 2.5  # a point is met if it is this close, or as close as its noise lets it be


Coefficients = dict[int, float]  # by power of x


class Point(NamedTuple):
    """A median of measurements: `y` at `x`, worth `weight` of them."""

    x: float
    y: float
    weight: float = 1.0


def fit_powers(points: Sequence[Point], powers: Sequence[int]) -> Coefficients:
    """The coefficients of these powers of x that make the relative errors least in squares, none of them negative."""
    best: tuple[float, Coefficients] | None = None
    for count in range(len(powers), 0, -1):
        for chosen in combinations(powers, count):
            solved = _solve(points, chosen)
            if solved is not None and all(value >= 0 for value in solved):
                found = dict.fromkeys(powers, 0.0) | dict(zip(chosen, solved, strict=True))
                error = squared_error(points, found)
                if best is None or error < best[0]:
                    best = error, found
    return best[1] if best else dict.fromkeys(powers, 0.0)


def fit_curve(points: Sequence[Point], noise: float) -> Coefficients:
    """A constant, a line or a parabola: the simplest that meets every point, or is nearly as close as the next.

    `noise` is the relative sigma of a single measurement.
    """
    found = fit_powers(points, (0,))
    for powers in ((0, 1), (0, 1, 2)):
        if len({point.x for point in points}) < len(powers) or _meets_all(points, found, noise):
            break
        better = fit_powers(points, powers)
        if squared_error(points, better) < _PAYS * squared_error(points, found):
            found = better
    return dict.fromkeys(range(3), 0.0) | found


def value(coefficients: Coefficients, x: float) -> float:
    """The polynomial at `x`."""
    return sum(coefficient * x**power for power, coefficient in coefficients.items())


def squared_error(points: Sequence[Point], coefficients: Coefficients) -> float:
    """The weighted sum of the squared relative errors."""
    return sum(point.weight * (value(coefficients, point.x) / point.y - 1) ** 2 for point in points)


def _meets_all(points: Sequence[Point], coefficients: Coefficients, noise: float) -> bool:
    return all(
        abs(value(coefficients, point.x) / point.y - 1) < max(_EXACT, _SIGMAS * noise / point.weight**0.5)
        for point in points
    )


def _solve(points: Sequence[Point], powers: Sequence[int]) -> list[float] | None:
    """The normal equations, by elimination; None where the points do not determine the coefficients."""
    rows = [
        [sum(p.weight * p.x ** (row + column) / p.y**2 for p in points) for column in powers]
        + [sum(p.weight * p.x**row / p.y for p in points)]
        for row in powers
    ]
    size = len(rows)
    for at in range(size):
        pivot = max(range(at, size), key=lambda row: abs(rows[row][at]))
        rows[at], rows[pivot] = rows[pivot], rows[at]
        if abs(rows[at][at]) < 1e-12 * max(map(abs, rows[at]), default=0.0) or not rows[at][at]:
            return None
        rows[at] = [entry / rows[at][at] for entry in rows[at]]
        for other in range(size):
            if other != at:
                factor = rows[other][at]
                rows[other] = [entry - factor * own for entry, own in zip(rows[other], rows[at], strict=True)]
    return [row[-1] for row in rows]
