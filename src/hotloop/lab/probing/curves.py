"""Fitting a + b x + d x², no coefficient of it negative, to points of which some are wrong."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import inf
from statistics import median
from typing import NamedTuple

_PAYS = 0.5  # a further term is worth having if it leaves at most this share of the squared error
_EXACT, _SIGMAS = 0.02, 2.5  # a point is met if it is this close, or as close as its noise lets it be
_ROUNDS = 20  # of weighing points by how far they are from the curve of the last round
_FAR = 2.0  # times the usual distance, from which on a point counts less
_OFF = 1.0  # the most that a point counts as off

Coefficients = dict[int, float]  # by power of x


class Point(NamedTuple):
    """A median of measurements: `y` at `x`, worth `weight` of them."""

    x: float
    y: float
    weight: float = 1.0


class Slope(NamedTuple):
    """How much points rise with x, relative to what they are at their middle, and the standard error of that."""

    rise: float
    error: float


def fit_powers(points: Sequence[Point], powers: Sequence[int]) -> Coefficients:
    """The coefficients of these powers of x, none of them negative, with the least squares of relative errors.

    Errors are relative to the curve, and what is far from it counts less the farther it is.
    """
    found = _least_squares(points, powers, [point.weight for point in points])
    for _ in range(_ROUNDS):
        expected = [value(found, point.x) for point in points]
        if not all(expected):
            break
        apart = [abs(point.y / usual - 1) for point, usual in zip(points, expected, strict=True)]
        far = max(_FAR * median(apart), _EXACT) if apart else _EXACT
        found = _least_squares(
            points,
            powers,
            [
                point.weight / usual**2 * min(1.0, (far / off) ** 2 if off else 1.0)
                for point, usual, off in zip(points, expected, apart, strict=True)
            ],
        )
    return found


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


def slope_of(points: Sequence[Point], noise: float) -> Slope:
    """The slope of the straight line through these points; its error is infinite if all of them have the same x.

    `noise` is the relative sigma of a single measurement.
    """
    whole = sum(point.weight for point in points)
    middle = sum(point.weight * point.x for point in points) / whole if whole else 0.0
    apart = sum(point.weight * (point.x - middle) ** 2 for point in points)
    if not apart:
        return Slope(0.0, inf)
    usual = sum(point.weight * point.y for point in points) / whole
    rise = sum(point.weight * (point.x - middle) * (point.y / usual - 1) for point in points) / apart
    return Slope(rise, noise / apart**0.5)


def value(coefficients: Coefficients, x: float) -> float:
    """The polynomial at `x`."""
    return sum(coefficient * x**power for power, coefficient in coefficients.items())


def squared_error(points: Sequence[Point], coefficients: Coefficients) -> float:
    """The weighted sum of the squared relative errors."""
    return sum(point.weight * min(_error(point, coefficients), _OFF) ** 2 for point in points)


def _meets_all(points: Sequence[Point], coefficients: Coefficients, noise: float) -> bool:
    return all(_error(point, coefficients) < max(_EXACT, _SIGMAS * noise / point.weight**0.5) for point in points)


def _error(point: Point, coefficients: Coefficients) -> float:
    return abs(value(coefficients, point.x) / point.y - 1)


def _least_squares(points: Sequence[Point], powers: Sequence[int], weights: Sequence[float]) -> Coefficients:
    """The best of all choices of these powers that leave no coefficient negative."""
    best: tuple[float, Coefficients] | None = None
    for count in range(len(powers), 0, -1):
        for chosen in combinations(powers, count):
            solved = _solve(points, chosen, weights)
            if solved is not None and all(each >= 0 for each in solved):
                found = dict.fromkeys(powers, 0.0) | dict(zip(chosen, solved, strict=True))
                left = sum(
                    weight * (value(found, point.x) - point.y) ** 2
                    for point, weight in zip(points, weights, strict=True)
                )
                if best is None or left < best[0]:
                    best = left, found
    return best[1] if best else dict.fromkeys(powers, 0.0)


def _solve(points: Sequence[Point], powers: Sequence[int], weights: Sequence[float]) -> list[float] | None:
    """The normal equations, by elimination; None where the points do not determine the coefficients."""
    weighted = list(zip(points, weights, strict=True))
    rows = [
        [sum(weight * point.x ** (row + column) for point, weight in weighted) for column in powers]
        + [sum(weight * point.y * point.x**row for point, weight in weighted)]
        for row in powers
    ]
    for at in range(len(rows)):
        pivot = max(range(at, len(rows)), key=lambda row: abs(rows[row][at]))
        rows[at], rows[pivot] = rows[pivot], rows[at]
        if abs(rows[at][at]) <= 1e-12 * max(map(abs, rows[at])):
            return None
        rows[at] = [entry / rows[at][at] for entry in rows[at]]
        for other in range(len(rows)):
            if other != at:
                factor = rows[other][at]
                rows[other] = [entry - factor * own for entry, own in zip(rows[other], rows[at], strict=True)]
    return [row[-1] for row in rows]
