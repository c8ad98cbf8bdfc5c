"""Curves through points, as simple as the points allow, whatever a few of them say."""

from __future__ import annotations

from math import inf

import pytest

from hotloop.lab.probing.curves import Point, fit_curve, fit_powers, slope_of

LOADS = (1, 4, 10, 50, 100)


def points(a: float, b: float = 0.0, d: float = 0.0) -> list[Point]:
    return [Point(x, a + b * x + d * x * x, 10.0) for x in LOADS]


@pytest.mark.parametrize("terms", [(2.0, 0.0, 0.0), (17.7, 0.84, 0.0), (4.6, 0.02, 0.0003), (5.0, 0.0, 0.002)])
def test_exact_points_give_the_curve(terms):
    assert tuple(fit_curve(points(*terms), noise=0.0).values()) == pytest.approx(terms)


def test_a_term_that_does_not_pay_is_left_out():
    shaken = [
        Point(x, y * (1.012 if place % 2 else 0.988), weight) for place, (x, y, weight) in enumerate(points(10.0))
    ]
    assert fit_curve(shaken, noise=0.0) == {0: pytest.approx(10.0, rel=0.02), 1: 0.0, 2: 0.0}


def test_noise_is_no_term():
    shaken = [*points(10.0)[:3], Point(50, 10.5, 4.0), Point(100, 11.0, 4.0)]
    assert fit_curve(shaken, noise=0.1)[1] == 0.0
    assert fit_curve(shaken, noise=0.0)[1] > 0.0


@pytest.mark.parametrize("wrong", [0.01, 2000.0])
def test_a_wrong_point_does_not_move_the_others(wrong):
    told = [*points(17.7, 0.84), Point(30, wrong, 10.0)]
    assert fit_powers(told, (0, 1)) == pytest.approx({0: 17.7, 1: 0.84}, rel=0.02)


def test_no_coefficient_is_negative():
    assert fit_powers([Point(1, 10.0), Point(10, 8.0), Point(100, 1.0)], (0, 1, 2))[1] == 0.0


def test_a_slope_is_told_with_its_error():
    line = [Point(x, y, 100.0) for x, y, _ in points(10.0, 0.1)]
    rise, error = slope_of(line, noise=0.1)
    assert rise == pytest.approx(0.1 / (10.0 + 0.1 * sum(LOADS) / 5))
    assert error == pytest.approx(0.1 / (100.0 * sum((x - 33) ** 2 for x in LOADS)) ** 0.5)
    assert slope_of([Point(1, 2.0), Point(1, 3.0)], noise=0.1) == (0.0, inf)


@pytest.mark.parametrize("few", [[], [Point(5, 3.0)], [Point(5, 3.0), Point(5, 3.2)]])
def test_too_few_points_give_what_they_can(few):
    found = fit_curve(few, noise=0.0)
    assert found[0] == pytest.approx(3.1 if len(few) == 2 else 3.0 if few else 0.0)
    assert (found[1], found[2]) == (0.0, 0.0)
