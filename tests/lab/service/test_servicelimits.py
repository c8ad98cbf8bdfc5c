import msgspec
import pytest

from hotloop.errors import ConfigError
from hotloop.lab.service.ratelimits import ServiceLimits
from hotloop.models.wire.faults import service_error

S = 1_000_000_000


def told(limits, now):
    return {name.decode(): value.decode() for name, value in limits.headers(now)}


def error_of(refused):
    """The error that a client makes of it."""
    headers = {name.decode(): value.decode() for name, value in refused.headers}
    return service_error(refused.status, headers, refused.pieces[0])


def test_requests_are_counted_and_come_back_evenly():
    limits = ServiceLimits(rpm=60, tpm=None)
    assert [limits.refuse(100, S) for _ in range(60)] == [None] * 60
    refused = error_of(limits.refuse(100, S))
    assert (type(refused).__name__, refused.retry_after) == ("RateLimited", 1.0)
    assert limits.refuse(100, 2 * S) is None
    assert limits.refuse(100, 2 * S) is not None
    assert limits.refuse(100, 4 * S) is None


def test_headers_tell_what_is_left():
    limits = ServiceLimits(rpm=60, tpm=6000)
    for _ in range(30):
        limits.refuse(10, S)
    limits.spend(1500)
    assert told(limits, S) == {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "30",
        "x-ratelimit-reset-requests": "30s",
        "x-ratelimit-limit-tokens": "6000",
        "x-ratelimit-remaining-tokens": "4200",
        "x-ratelimit-reset-tokens": "18s",
    }
    assert told(limits, 1000 * S)["x-ratelimit-reset-tokens"] == "0ms"


def test_a_reply_may_leave_a_debt_that_has_to_be_paid_back():
    limits = ServiceLimits(rpm=None, tpm=6000)
    assert limits.refuse(100, S) is None
    limits.spend(6400)
    assert told(limits, S)["x-ratelimit-remaining-tokens"] == "0"
    assert told(limits, S)["x-ratelimit-reset-tokens"] == "1m5s"
    refused = limits.refuse(100, S)
    assert b"try again in 6s" in refused.pieces[0]
    assert error_of(refused).retry_after == 6.0


def test_what_never_fits_is_not_to_be_tried_again():
    limits = ServiceLimits(rpm=10, tpm=1000)
    refused = error_of(limits.refuse(1001, S))
    assert (refused.status, refused.code, refused.retryable) == (413, "rate_limit_exceeded", False)
    assert told(limits, S)["x-ratelimit-remaining-requests"] == "10"


def test_a_refusal_is_written_as_services_write_it():
    limits = ServiceLimits(rpm=120, tpm=None)
    for _ in range(120):
        limits.refuse(1, S)
    refused = limits.refuse(1, S + S // 4)
    body = msgspec.json.decode(refused.pieces[0])
    assert body["error"]["message"] == "Rate limit reached on requests per minute. Please try again in 250ms."
    assert dict(refused.headers)[b"retry-after"] == b"1"
    assert dict(refused.headers)[b"retry-after-ms"] == b"250"


@pytest.mark.parametrize(("rpm", "tpm", "told"), [(0, None, "rpm is 0"), (1, -1, "tpm is -1")])
def test_limits_that_let_nothing_through_are_refused(rpm, tpm, told):
    with pytest.raises(ConfigError, match=told):
        ServiceLimits(rpm, tpm)


def test_without_limits_nothing_is_refused_or_told():
    limits = ServiceLimits(None, None)
    assert limits.refuse(10**9, S) is None
    assert told(limits, S) == {}
