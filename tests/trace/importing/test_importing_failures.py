"""Requests that failed have our names for it, so that one diagnosis serves all frameworks."""

from __future__ import annotations

import pytest
from otlpspans import agent, chat, event, record

import hotloop.errors
from hotloop.insight.doctor import diagnose
from hotloop.trace.importing.failures import class_of


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        ("429", "RateLimited"),
        ("RateLimitError", "RateLimited"),
        ("ThrottlingException", "RateLimited"),
        ("rate_limit_exceeded", "RateLimited"),
        ("RESOURCE_EXHAUSTED", "RateLimited"),
        ("500", "Overloaded"),
        ("503", "Overloaded"),
        ("InternalServerError", "Overloaded"),
        ("ServiceUnavailableError", "Overloaded"),
        ("UNAVAILABLE", "Overloaded"),
        ("GatewayTimeout", "Overloaded"),
        ("timeout", "ReplyTimeout"),
        ("APITimeoutError", "ReplyTimeout"),
        ("DEADLINE_EXCEEDED", "ReplyTimeout"),
        ("ConnectTimeout", "ConnectError"),
        ("APIConnectionError", "TransportError"),
        ("RemoteProtocolError", "TransportError"),
        ("APIResponseValidationError", "MalformedReply"),
        ("401", "AuthenticationError"),
        ("BadRequestError", "InvalidRequest"),
        ("400", "InvalidRequest"),
        ("CancelledError", "CancelledError"),
        ("OrderMissing", "OrderMissing"),
    ],
)
def test_what_others_call_it_is_said_in_our_words(error, ours):
    assert class_of(error, {}) == ours


def test_our_own_names_stay():
    own = [name for name, kind in vars(hotloop.errors).items() if _is_of_models(kind)]
    assert own
    assert [class_of(name, {}) for name in own] == own


def _is_of_models(kind):
    return isinstance(kind, type) and issubclass(kind, hotloop.errors.ModelError)


@pytest.mark.parametrize(
    ("told", "message", "ours"),
    [
        ({"http.response.status_code": 503}, "", "Overloaded"),
        ({}, "status_code: 429, model_name: m", "RateLimited"),
        ({}, "Error code: 500 - it failed inside", "Overloaded"),
        ({}, "order 429 is not there", "ModelHTTPError"),
    ],
)
def test_a_status_tells_what_a_class_does_not(told, message, ours):
    raised = [event("exception", 20, **{"exception.type": "x.ModelHTTPError", "exception.message": message})]
    found = record(agent("run", "", 0, 99), chat("ask", "run", 1, 50, told=told, failed=True, events=raised))
    assert [each.error for each in found.attempts] == [ours]


@pytest.mark.parametrize(("error", "finding"), [("RateLimitError", "rate-limits"), ("503", "failed-requests")])
def test_the_doctor_finds_failed_requests_of_other_frameworks(error, finding):
    failed = chat("one", "run", 0, 900, failed=True, told={"error.type": error})
    found = record(agent("run", "", 0, 2000), failed, chat("two", "run", 1500, 1900))
    assert finding in {each.rule for each in diagnose([found])}
