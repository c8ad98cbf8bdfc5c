from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.trace.stats import percentile

VALUES = st.lists(st.floats(allow_nan=False), min_size=1)


def test_nearest_rank_on_known_values():
    values = [50, 15, 20, 40, 35]
    assert [percentile(values, each) for each in (5, 30, 40, 50, 100)] == [15, 20, 20, 35, 50]


def test_rank_is_exact_where_floats_are_not():
    assert percentile(range(1, 1001), 99.9) == 999


def test_a_failed_request_is_infinitely_slow():
    assert percentile([1.0, inf, 2.0], 95) == inf


@given(VALUES, st.floats(min_value=0.1, max_value=100))
def test_is_the_smallest_value_that_covers_the_share(values, percent):
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) / len(values) >= percent / 100 - 1e-9
    assert all(
        sum(v <= value for v in values) / len(values) < percent / 100 + 1e-9 for value in values if value < found
    )


@pytest.mark.parametrize(("values", "percent"), [([], 50), ([1.0], 0), ([1.0], 101)])
def test_refuses_what_has_no_percentile(values, percent):
    with pytest.raises(ValueError, match="no percentile"):
        percentile(values, percent)
