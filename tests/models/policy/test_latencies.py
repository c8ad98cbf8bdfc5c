"""What is learned from a service's replies: how long a silence may be, and when a second request pays."""

import random
import statistics

import pytest

from hotloop.models.policy.latencies import Latencies
from hotloop.units import NS_PER_MS

SHORT, LONG = 2_000, 60_000  # bytes of prompts


def shown(first_tokens: list[int], *, size: int = SHORT, gap: int = 20) -> Latencies:
    """After replies with these milliseconds to the first token."""
    latencies = Latencies(0.05)
    note(latencies, first_tokens, size=size, gap=gap)
    return latencies


def note(latencies: Latencies, first_tokens: list[int], *, size: int = SHORT, gap: int = 20) -> None:
    for ttft in first_tokens:
        latencies.first_token(ttft * NS_PER_MS, size)
        latencies.silent(gap * NS_PER_MS)


@pytest.mark.parametrize(
    ("gaps", "seconds"),
    [
        ([], 30.0),
        ([500] * 19, 30.0),  # too few to tell
        ([500] * 32, 5.0),
        ([20] * 32, 2.0),
        ([9_000] * 32, 30.0),
        ([500] * 255 + [9_000], 5.0),  # one in a hundred does not count
        ([500] * 240 + [800] * 16, 8.0),
        ([9_000] * 304 + [300] * 272, 3.0),  # forgotten
    ],
)
def test_a_reply_is_stuck_after_ten_times_its_services_longest_usual_gap(gaps: list[int], seconds: float) -> None:
    latencies = Latencies(0.05)
    for gap in gaps:
        note(latencies, [100], gap=gap)
    assert latencies.stall == seconds


def test_a_second_request_pays_after_the_time_that_95_of_100_need() -> None:
    latencies = shown(list(range(101, 120)))
    assert latencies.hedge_after(SHORT) is None
    note(latencies, [120])
    assert latencies.hedge_after(SHORT) == 119 * NS_PER_MS
    note(latencies, list(range(1, 101)) * 3)
    assert latencies.hedge_after(SHORT) == pytest.approx(95 * NS_PER_MS, abs=2 * NS_PER_MS)


def test_long_cold_prompts_are_no_stragglers() -> None:
    latencies = shown([100] * 30)
    assert latencies.hedge_after(LONG) is None
    note(latencies, [4_000] * 30, size=LONG)
    assert latencies.hedge_after(SHORT + 40) == 100 * NS_PER_MS
    assert latencies.hedge_after(LONG + 1_000) == 4_000 * NS_PER_MS
    assert not latencies.slow_now()


def test_a_service_is_slow_while_its_newest_replies_take_twice_as_long_as_usual() -> None:
    latencies = shown([100] * 100)
    note(latencies, [400] * 5)
    assert not latencies.slow_now()
    note(latencies, [400] * 3)
    assert latencies.slow_now()
    note(latencies, [100] * 6)
    assert not latencies.slow_now()


def test_requests_that_were_given_up_count_as_slow() -> None:
    latencies = shown([100] * 100)
    for _ in range(10):
        latencies.first_token(5_000 * NS_PER_MS, SHORT)
    assert latencies.slow_now()


def test_hedges_that_win_do_not_hide_what_they_are_for() -> None:
    """Stragglers are cut off at the 95th percentile; the percentile must not follow them down."""
    chance = random.Random(7)
    latencies = shown([chance.randint(80, 120) for _ in range(256)])
    thresholds = []
    for _ in range(5_000):
        ttft = (2_000 if chance.random() < 0.03 else chance.randint(80, 120)) * NS_PER_MS
        after = latencies.hedge_after(SHORT)
        assert after is not None
        thresholds.append(after // NS_PER_MS)
        if ttft > after:
            latencies.first_token(after + 100 * NS_PER_MS, SHORT)
        latencies.first_token(100 * NS_PER_MS if ttft > after else ttft, SHORT)
    assert statistics.median(thresholds) == pytest.approx(118, abs=2)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 1.0])
def test_second_requests_are_a_share_of_all_and_a_burst_gets_few(share: float) -> None:
    latencies = Latencies(share)
    spent = 0
    for _ in range(1_000):
        latencies.asked()
        spent += latencies.may_hedge()
    assert spent == pytest.approx(1_000 * share, abs=1)
    for _ in range(1_000):
        latencies.asked()
    assert sum(latencies.may_hedge() for _ in range(1_000)) <= 5
