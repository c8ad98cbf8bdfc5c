"""Errors of services: which kind each is, when to come back, and what a person reads."""

from __future__ import annotations

import email.utils
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.errors import (
    AuthenticationError,
    ContextOverflow,
    InvalidRequest,
    Overloaded,
    RateLimited,
    ServiceError,
    ToolUseFailed,
)
from hotloop.models.wire.faults import is_error, retry_after, service_error


def fault(status, body="", **headers):
    body = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return service_error(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


# Which error


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((status, InvalidRequest) for status in (400, 402, 404, 405, 413, 415, 422, 451, 499)),
        *((status, AuthenticationError) for status in (401, 403)),
        *((status, Overloaded) for status in (408, 409, 425, 498, 500, 502, 503, 504, 520, 529, 599)),
        (429, RateLimited),
        *((status, InvalidRequest) for status in (301, 302, 307, 308)),
    ],
)
def test_a_status(status, kind):
    for body in (
        "",
        "oops",
        {"error": {"message": "oops"}},
        {"error": "oops"},
        {"detail": "oops"},
        [{"error": {"message": "oops"}}],
    ):
        failed = fault(status, body)
        assert type(failed) is kind
        assert failed.status == status
        assert failed.retryable == (kind in (Overloaded, RateLimited))
        assert str(status) in str(failed)
        assert "oops" in str(failed) or not body or status < 400


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (400, {"code": "context_length_exceeded", "message": "x"}, ContextOverflow),
        (400, {"message": "This model's maximum context length is 4096 tokens."}, ContextOverflow),
        (400, {"message": "Please reduce the length of the messages or completion."}, ContextOverflow),
        (413, {"message": "prompt is too long: 9 > 8"}, ContextOverflow),
        (500, {"message": "the request exceeds the available context size"}, ContextOverflow),
        (422, {"message": "too many input tokens"}, ContextOverflow),
        (429, {"message": "Request too large for gpt on tokens per min (TPM): Limit 6, Requested 7."}, InvalidRequest),
        (
            413,
            {"message": "Request too large for model", "type": "tokens", "code": "rate_limit_exceeded"},
            InvalidRequest,
        ),
        (429, {"message": "Rate limit reached", "type": "tokens", "code": "rate_limit_exceeded"}, RateLimited),
        (429, {"message": "too many tokens per minute"}, RateLimited),
        (400, {"code": "tool_use_failed", "failed_generation": "x"}, ToolUseFailed),
        (400, {"code": "model_not_found"}, InvalidRequest),
        (401, {"type": "invalid_request_error", "code": "invalid_api_key"}, AuthenticationError),
        (503, {"type": "server_error", "message": "x"}, Overloaded),
        (502, {"code": 429, "message": "upstream"}, RateLimited),
        (500, {"code": "401", "message": "upstream"}, AuthenticationError),
        (400, {"code": 40011}, InvalidRequest),
        (400, {"code": True, "status": None, "status_code": []}, InvalidRequest),
        (400, {"code": "٤٢٩"}, InvalidRequest),
    ],
)
def test_a_status_and_what_the_service_says_of_it(status, error, kind):
    assert type(fault(status, {"error": error})) is kind
    assert type(fault(status, error)) is kind
    assert type(fault(status, [{"error": error}])) is kind


def test_the_status_and_code_are_told():
    failed = fault(503, {"error": {"message": "engine queue full", "type": "server_error"}})
    assert (failed.status, failed.code) == (503, "server_error")
    assert str(failed) == "The service answered 503 (server_error): engine queue full."
    assert str(fault(429, {"error": {"message": "slow", "code": 429}})) == "The service answered 429: slow."
    assert "key" in str(fault(401, "no"))
    assert "Shorten" in str(fault(400, {"error": {"code": "context_length_exceeded"}}))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "x", "code": 503}, Overloaded),
        ({"message": "x", "status": 429}, RateLimited),
        ({"message": "x", "status_code": "400"}, InvalidRequest),
        ({"message": "x", "type": "invalid_request_error"}, InvalidRequest),
        ({"message": "x", "type": "BadRequestError"}, InvalidRequest),
        ({"message": "x", "status": "RESOURCE_EXHAUSTED"}, RateLimited),
        ({"message": "x", "type": "overloaded_error"}, Overloaded),
        ({"message": "x", "type": ["odd"]}, Overloaded),
        ({}, Overloaded),
    ],
)
def test_an_error_in_a_stream_has_the_inner_status(error, kind):
    assert type(service_error(200, {}, error)) is kind


def test_a_redirect_says_where_to():
    assert "https://new.example/v1" in str(fault(308, "", location="https://new.example/v1"))


def test_what_could_not_be_read_is_kept_for_the_salvage():
    failed = fault(400, {"error": {"code": "tool_use_failed", "message": "m", "failed_generation": "<function=f>"}})
    assert failed.failed_generation == "<function=f>"
    assert fault(400, {"error": {"code": "tool_use_failed", "failed_generation": None}}).failed_generation == ""


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "an empty body"),
        (b" \n", "an empty body"),
        (b"upstream connect error", "upstream connect error"),
        (
            b"<html>\n<head><style>p {}</style><title>502 Bad Gateway</title></head>\n<body><hr></body></html>",
            "502 Bad Gateway",
        ),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"null", "no message"),
        (b'"words"', "words"),
        (b"{}", "no message"),
        (b"[]", "no message"),
        (b'{"error": null}', "no message"),
        (b'{"error": {"message": null}}', "no message"),
        (b'{"message": "top"}', "top"),
    ],
)
def test_bodies_of_every_kind(body, words):
    assert str(fault(502, body)) == f"The service answered 502: {words}."


def test_the_wait_that_is_asked_for_is_told():
    failed = fault(429, {"error": {"message": "slow down!"}}, retry_after="120")
    assert str(failed) == "The service answered 429: slow down. It asks to wait 120 s."


def test_a_long_message_is_cut():
    assert len(str(fault(500, "x" * 60_000))) < 1000
    assert len(str(fault(500, {"error": {"message": "x" * 60_000}}))) < 1000


# When to come back


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.3"}, 0.3),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after-ms": "350"}, 0.35),
        ({"retry-after-ms": "350", "retry-after": "7"}, 0.35),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "2m59.56s"}, 179.56),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "350ms"}, 0.35),
        (
            {
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "7.66s",
                "x-ratelimit-remaining-requests": "14",
                "x-ratelimit-reset-requests": "2m",
            },
            7.66,
        ),
        (
            {
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "1s",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "2s",
            },
            2.0,
        ),
        ({"x-ratelimit-reset-requests": "1h2m3s"}, 3723.0),
        ({"x-ratelimit-reset-tokens": "12"}, 12.0),
        ({"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "1s"}, None),
        ({"x-ratelimit-reset-tokens": "later"}, None),
        ({"x-ratelimit-reset-tokens": "1.2.3s"}, 2.3),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "Wed, 99 Oct 99999 07:28:00 GMT"}, None),
        ({}, None),
    ],
)
def test_headers_say_when(headers, seconds):
    found = retry_after(headers)
    assert found == (seconds if seconds is None else pytest.approx(seconds))


def test_a_date_says_when():
    date = email.utils.formatdate(time.time() + 30, usegmt=True)
    assert 28 < retry_after({"retry-after": date}) <= 30


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Rate limit reached. Please try again in 0.4s.", 0.4),
        ("Please try again in 20s. Visit https://example.com", 20.0),
        ("Please try again in 7.66s. some more", 7.66),
        ("try again in 1.2s. https://console.example", 1.2),
        ("Please try again in 350ms", 0.35),
        ("Please try again in 20 milliseconds.", 0.02),
        ("try again in 1m30.5s.", 90.5),
        ("Try again after 2 minutes", 120.0),
        ("Please retry in 17.39s.", 17.39),
        ("Retry after 10 seconds", 10.0),
        ("try again in .5s", 0.5),
        ("try again in 1 hour 2 minutes", 3720.0),
        ("Please try again later.", None),
        ("try again in ...", None),
        ("try again in 5 sheep", None),
        ("", None),
    ],
)
def test_words_say_when(message, seconds):
    assert retry_after({}, message) == (seconds if seconds is None else pytest.approx(seconds))
    assert fault(429, {"error": {"message": message}}).retry_after == (
        seconds if seconds is None else pytest.approx(seconds)
    )


def test_only_what_may_be_sent_again_says_when():
    assert fault(400, "try again in 3s", retry_after="3").retry_after is None
    assert fault(503, "", retry_after="3").retry_after == 3.0


# Whatever comes

words = st.text(max_size=30) | st.sampled_from(
    ["try again in 1.1.1s", "2m59.56s", "retry after 9999999999h", "1e400", "-0"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["error", "message", "code", "type", "status", "status_code", "detail", "failed_generation", "object"]
            ),
            inner,
        )
    ),
    max_leaves=10,
)
names = st.sampled_from(
    [
        "retry-after",
        "retry-after-ms",
        "x-ratelimit-reset-tokens",
        "x-ratelimit-reset-requests",
        "x-ratelimit-remaining-tokens",
    ]
)


@given(
    st.integers(200, 599),
    st.dictionaries(names, words),
    values.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=50),
)
def test_every_reply_is_some_error(status, headers, body):
    failed = service_error(status, headers, body)
    assert isinstance(failed, ServiceError)
    assert failed.status >= 300
    assert str(failed)
    assert failed.retry_after is None or failed.retry_after >= 0


@given(values)
def test_every_value_is_an_error_or_not(value):
    assert is_error(value) in (True, False)
    if isinstance(value, dict):
        assert isinstance(service_error(200, {}, value), ServiceError)


def test_nesting_without_end():
    assert isinstance(fault(500, b'{"error":' * 100_000), Overloaded)


def test_what_is_a_bare_error():
    assert is_error({"object": "error", "message": "m"})
    assert is_error({"detail": "Not Found"})
    assert not is_error({"choices": [], "message": "m"})
    assert not is_error({"type": "ping"})
    assert not is_error(["error"])
