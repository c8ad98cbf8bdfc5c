"""Rate limits as services tell them in headers."""

import pytest

from hotloop.models.policy.ratelimits import RateLimits
from hotloop.units import NS_PER_S, ns


def told(at: float = 0.0, sent: float = 0.0, limits: RateLimits | None = None, **fields: str) -> RateLimits:
    """After a reply with these headers: `limit_requests="10"`."""
    limits = limits or RateLimits()
    headers = [(b"Content-Type", b"text/event-stream")]
    headers += [(f"X-RateLimit-{name.replace('_', '-').title()}".encode(), fields[name].encode()) for name in fields]
    limits.learn(headers, ns(at), ns(sent))
    return limits


def ten(left: str, reset: str = "10s") -> RateLimits:
    return told(limit_requests="10", remaining_requests=left, reset_requests=reset)


def test_nothing_is_known_at_first() -> None:
    limits = RateLimits()
    limits.spend(10**9, 0)
    assert limits.wait(10**9, 0) == 0
    assert limits.learn([(b"content-type", b"application/json"), (b"x-limit-on", b"1")], 0, 0) is False


def test_requests_go_until_none_remain_and_then_as_fast_as_they_come_back() -> None:
    limits = ten("2", "8s")  # one a second
    for wait in (0, 0, 1.0, 2.0):
        assert limits.wait(5, 0) == ns(wait)
        limits.spend(5, 0)
    assert limits.wait(5, ns(3.0)) == 0
    assert limits.reason(5, 0) == "its rate limit (requests) is used up"


@pytest.mark.parametrize(
    ("reset", "seconds"),
    [("1m40s", 10), ("100", 10), ("350ms", 0.035), ("2m59.56s", 17.956), ("soon", 0), ("1741305600000", 0), ("", 0)],
)
def test_spans_as_services_write_them(reset: str, seconds: float) -> None:
    assert ten("0", reset).wait(0, 0) == pytest.approx(ns(seconds), abs=2)


def test_tokens_and_requests_are_limits_of_their_own() -> None:
    limits = told(
        limit_tokens="1000",
        remaining_tokens="400",
        reset_tokens="6s",
        limit_requests="9",
        remaining_requests="8",
        reset_requests="1",
    )
    assert limits.wait(400, 0) == 0
    assert limits.wait(700, 0) == ns(3.0)
    assert limits.reason(700, 0) == "its rate limit (tokens) is used up"
    limits.spend(700, ns(3.0))
    assert limits.wait(100, ns(3.0)) == ns(1.0)


def test_a_request_larger_than_the_limit_goes_once_the_limit_is_whole() -> None:
    limits = told(limit_tokens="1000", remaining_tokens="500", reset_tokens="5s")
    assert limits.wait(7_000, 0) == ns(5.0)
    assert limits.wait(7_000, ns(5.0)) == 0


def test_who_is_ahead_goes_first() -> None:
    limits = told(limit_tokens="1000", remaining_tokens="0", reset_tokens="10s")
    assert limits.wait(100, 0, requests_ahead=3, tokens_ahead=2_000) == ns(21.0)


def test_a_reply_does_not_know_of_requests_that_went_after_its_own() -> None:
    limits = RateLimits()
    for moment in (1.0, 2.0, 3.0):
        limits.spend(10, ns(moment))
    told(limits=limits, at=4.0, sent=1.0, limit_requests="10", remaining_requests="2", reset_requests="8")
    assert limits.wait(1, ns(4.0)) == NS_PER_S


def test_older_news_is_no_news() -> None:
    limits = ten("0")
    told(limits=limits, at=5.0, sent=4.0, limit_requests="10", remaining_requests="9", reset_requests="1")
    told(limits=limits, at=1.0, sent=0.5, limit_requests="10", remaining_requests="0", reset_requests="10")
    assert limits.wait(1, ns(5.0)) == 0


def test_a_full_limit_keeps_the_rate_that_is_known() -> None:
    limits = ten("0")
    told(limits=limits, at=20.0, sent=20.0, limit_requests="10", remaining_requests="10", reset_requests="0s")
    for _ in range(10):
        assert limits.wait(1, ns(20.0)) == 0
        limits.spend(1, ns(20.0))
    assert limits.wait(1, ns(20.0)) == NS_PER_S


@pytest.mark.parametrize(
    "headers",
    [
        {"x-ratelimit-limit": "10", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "10"},
        {"RateLimit-Limit": "10, 10;w=10", "RateLimit-Remaining": "0", "RateLimit-Reset": "10"},
        {
            "x-ratelimit-limit-requests-day": "10",
            "x-ratelimit-remaining-requests-day": "0",
            "x-ratelimit-reset-requests-day": "10.0",
        },
    ],
)
def test_other_names_for_the_same(headers: dict[str, str]) -> None:
    limits = RateLimits()
    assert limits.learn([(name.encode(), value.encode()) for name, value in headers.items()], 0, 0)
    assert limits.wait(0, 0) == NS_PER_S


@pytest.mark.parametrize("left", ["-1", "many", "", "0x10"])
def test_what_makes_no_sense_holds_nobody_back(left: str) -> None:
    limits = told(limit_requests=left, remaining_requests=left, reset_requests="60s")
    limits.spend(1, 0)
    limits.spend(1, 0)
    assert limits.wait(1, 0) == 0


def test_nobody_goes_while_the_service_wants_none() -> None:
    limits = RateLimits()
    limits.hold(ns(5.0))
    limits.hold(ns(3.0))
    assert limits.wait(1, ns(1.0)) == ns(4.0)
    assert limits.reason(1, ns(1.0)) == "the service asked to be left alone"
    assert limits.wait(1, ns(5.0)) == 0
