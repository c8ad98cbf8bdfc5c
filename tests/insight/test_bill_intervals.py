"""Where true values lie: the intervals of percentiles, means and shares, and of what has changed."""

import math
import random

import pytest

from hotloop.insight.bill.bill import Sum, Times
from hotloop.insight.bill.intervals import (
    difference,
    level_of_each,
    mean_interval,
    ranks,
    share_interval,
)
from hotloop.insight.estimate import Estimate


def binomial(hits: int, values: int, share: float) -> float:
    """The chance of at most so many hits."""
    return sum(math.comb(values, k) * share**k * (1 - share) ** (values - k) for k in range(hits + 1))


@pytest.mark.parametrize("values", [1, 7, 40, 300])
@pytest.mark.parametrize("share", [0.5, 0.95])
def test_between_its_ranks_a_percentile_lies_as_surely_as_was_asked_for_and_no_surer_than_needed(values, share):
    low, high = ranks(values, share, 0.95)
    assert low == 0 or binomial(low - 1, values, share) <= 0.025 < binomial(low, values, share)
    assert high == values + 1 or binomial(high - 2, values, share) < 0.975 <= binomial(high - 1, values, share)


def test_ranks_of_a_great_many_values_are_those_of_the_normal_distribution():
    assert ranks(100_000, 0.5, 0.95) == pytest.approx((50_000 - 310, 50_000 + 311), abs=2)


def test_of_few_values_a_high_percentile_has_no_upper_end():
    times = Times.of([float(each) for each in range(20)], 20)
    assert times.estimate(0.95, 0.95) == Estimate(18, 16, math.inf)
    assert Times.of([3.0], 1).estimate(0.5, 0.95) == Estimate(3.0, 0.0, math.inf)


def test_values_of_the_same_run_do_not_make_a_percentile_surer():
    values = [float(each) for each in range(1000)]
    alone, together = Times.of(values, 1000).estimate(0.5, 0.95), Times.of(values, 100).estimate(0.5, 0.95)
    assert alone.value == together.value
    assert together.low < alone.low < alone.high < together.high


def test_of_many_values_a_thousand_are_kept_and_the_percentiles_stay_exact():
    values = [float(each) for each in random.Random(1).sample(range(100_000), 12_345)]
    times = Times.of(values, len(values))
    assert len(times.points) == 1000
    ordered = sorted(values)
    assert [times.at(share) for share in (0.5, 0.95, 0.99, 1)] == [
        ordered[math.ceil(share * len(values)) - 1] for share in (0.5, 0.95, 0.99, 1)
    ]


@pytest.mark.parametrize(("values", "t"), [(6, 2.571), (10, 2.262), (31, 2.042), (100_000, 1.960)])
def test_a_mean_lies_within_students_t_of_its_error(values, t):
    low, high = mean_interval(values, 10.0, 2.0, 0.95)
    assert (low + high) / 2 == pytest.approx(10)
    assert (high - low) / 2 == pytest.approx(t * 2 / math.sqrt(values), rel=0.005)


def test_a_mean_of_few_values_may_lie_anywhere():
    assert mean_interval(4, 10.0, 2.0, 0.95) == (-math.inf, math.inf)


def test_a_share_of_nothing_or_of_few_is_wide_and_never_below_zero():
    assert share_interval(0, 0, 0.95) == (0, 1)
    assert share_interval(0, 20, 0.95) == pytest.approx((0, 0.161), abs=0.001)
    assert share_interval(5, 10, 0.95) == pytest.approx((0.237, 0.763), abs=0.001)


def test_what_changed_is_as_unsure_as_both_sides_together():
    before, after = Estimate(10, 7, 14), Estimate(30, 26, 33)
    assert difference(before, after) == Estimate(20, 20 - math.hypot(4, 4), 20 + math.hypot(3, 3))
    assert difference(before, Estimate(30, 26, math.inf)).high == math.inf


def test_intervals_that_are_to_hold_together_are_each_surer():
    assert level_of_each(0.95, 10) == pytest.approx(0.995)
    assert level_of_each(0.95, 0) == 0.95


def test_a_sum_leaves_out_the_runs_in_which_it_is_not_known():
    tokens = Sum()
    for value in (1.0, 3.0, None):
        tokens.add(value)
    amount = tokens.amount(5)  # of which two had none
    assert amount is not None
    assert (amount.runs, amount.mean, amount.deviation) == (4, 1.0, pytest.approx(1.414, abs=0.001))
    assert Sum().amount(0) is None
