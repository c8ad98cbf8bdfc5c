"""A reply's time per token, and when it cannot be told."""

import pytest

from hotloop.trace.pace import is_buffered, time_per_token


@pytest.mark.parametrize(
    ("tokens", "reads", "spread", "buffered", "tpot"),
    [
        (11, 11, 20_000_000, False, 2_000_000),
        (11, 2, 20_000_000, False, 2_000_000),
        (11, 1, 0, True, None),
        (11, 11, 10_999, True, None),  # in several reads, but faster than anybody writes
        (11, 11, 11_000, False, 1_100),
        (4, 1, 0, False, None),  # few tokens may come together by chance
        (4, 4, 30, False, 10),
        (1, 1, 0, False, None),
        (0, 0, 0, False, None),
    ],
)
def test_pace(tokens, reads, spread, buffered, tpot):
    assert (is_buffered(tokens, reads, spread), time_per_token(tokens, reads, spread)) == (buffered, tpot)
