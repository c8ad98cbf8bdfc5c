"""The circuit breaker: when a service is left alone, and how it comes back."""

from hypothesis import given
from hypothesis import strategies as st

from hotloop.models.policy.breaker import CircuitBreaker
from hotloop.models.policy.policy import Breaker
from hotloop.units import NS_PER_S, ns

SETTINGS = Breaker(failure_rate=0.5, window=4, at_least=4, cool=10.0, probes=2)


def opened(settings: Breaker = SETTINGS) -> CircuitBreaker:
    breaker = CircuitBreaker(settings)
    for _ in range(settings.at_least):
        assert breaker.wait(0) == 0
        breaker.record(0, failed=True, ttft=None)
    return breaker


def report(breaker: CircuitBreaker, outcomes: str, ttft: int | None = None, now: int = 0) -> None:
    for outcome in outcomes:
        breaker.record(now, failed=outcome == "x", ttft=ttft)


def test_opens_on_a_share_of_the_newest_requests_and_not_before_enough_are_known() -> None:
    breaker = CircuitBreaker(Breaker(failure_rate=0.5, window=4, at_least=3))
    report(breaker, "xx")
    assert breaker.wait(0) == 0
    report(breaker, ".")
    assert breaker.wait(0) == ns(10.0)
    assert breaker.describe(0) == "2 of the last 3 requests failed"


def test_what_left_the_window_does_not_count() -> None:
    breaker = CircuitBreaker(SETTINGS)
    report(breaker, "..x...x...x...x..")
    assert (breaker.wait(0), breaker.describe(0)) == (0, "")
    report(breaker, "xx")
    assert breaker.wait(0) > 0


def test_slow_first_tokens_open_it_too() -> None:
    breaker = CircuitBreaker(Breaker(slow_call=2.0, slow_rate=0.75, window=4, at_least=4))
    report(breaker, "....", ttft=ns(2.0))
    report(breaker, "..", ttft=ns(2.1))
    assert breaker.wait(0) == 0
    report(breaker, ".", ttft=ns(2.1))
    assert breaker.wait(0) > 0
    assert breaker.describe(0) == "3 of the last 4 requests took more than 2 s to their first token"


def test_rests_then_lets_probes_through_and_is_back_when_all_succeed() -> None:
    breaker = opened()
    assert breaker.wait(ns(4.0)) == ns(6.0)
    later = ns(10.0)
    assert [breaker.wait(later) > 0 for _ in range(3)] == [False, False, True]
    breaker.record(later, failed=False, ttft=1)
    assert breaker.wait(later) > 0
    breaker.record(later, failed=False, ttft=1)
    assert [breaker.wait(later) for _ in range(9)] == [0] * 9
    report(breaker, "xxx", now=later)
    assert breaker.wait(later) == 0  # what was before counts no longer


def test_the_first_probe_that_fails_or_is_slow_closes_it_off_again() -> None:
    for failed, ttft in ((True, None), (False, ns(3.0))):
        breaker = opened(Breaker(slow_call=2.0, window=4, at_least=4))
        assert breaker.wait(ns(10.0)) == 0
        breaker.record(ns(11.0), failed=failed, ttft=ttft)
        assert breaker.wait(ns(11.0)) == ns(10.0)
        assert breaker.describe(0) == "4 of the last 4 requests failed, and so did one that was tried since"


def test_a_probe_that_was_never_sent_makes_room_for_another() -> None:
    breaker = opened()
    later = ns(10.0)
    assert [breaker.wait(later) for _ in range(2)] == [0, 0]
    breaker.release()
    assert breaker.wait(later) == 0
    assert breaker.wait(later) > 0


def test_probes_that_never_report_do_not_block_for_ever() -> None:
    breaker = opened()
    assert [breaker.wait(ns(10.0)) for _ in range(2)] == [0, 0]
    assert breaker.wait(ns(15.0)) == ns(5.0)
    assert breaker.wait(ns(20.0)) == 0


def test_reports_while_it_rests_change_nothing() -> None:
    breaker = opened()
    report(breaker, "....", now=ns(1.0))
    breaker.release()
    assert breaker.wait(ns(2.0)) == ns(8.0)


@given(st.lists(st.tuples(st.sampled_from(["ask", "ok", "failed", "release"]), st.integers(0, 5))))
def test_whatever_happens_it_never_asks_to_wait_longer_than_it_rests_and_opens_again(steps: list) -> None:
    breaker, now = CircuitBreaker(SETTINGS), 0
    for what, seconds in steps:
        now += seconds * NS_PER_S
        if what == "ask":
            wait = breaker.wait(now)
            assert 0 <= wait <= ns(SETTINGS.cool)
            assert not wait or breaker.describe(now)
        elif what == "release":
            breaker.release()
        else:
            breaker.record(now, failed=what == "failed", ttft=None)
    wait = breaker.wait(now)
    assert wait == 0 or breaker.wait(now + wait) == 0


@given(st.text("x.", max_size=60))
def test_it_opens_exactly_when_the_share_is_reached(outcomes: str) -> None:
    breaker = CircuitBreaker(Breaker(failure_rate=0.6, window=10, at_least=5))
    for number in range(len(outcomes)):
        report(breaker, outcomes[number])
        newest = outcomes[max(0, number - 9) : number + 1]
        bad = len(newest) >= 5 and newest.count("x") >= 0.6 * len(newest)
        assert (breaker.wait(0) > 0) == bad
        if bad:
            break
