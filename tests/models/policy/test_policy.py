"""How a service is treated, as settings: what may be said, and what is said of what may not."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hotloop import Breaker, Policy
from hotloop.errors import ConfigError

SECONDS = [0, -1, math.inf, math.nan, True, "1", [1], None]
SHARES = [-0.1, 1.1, math.nan, True, None, "5%"]
COUNTS = [-1, 1.5, True, None, math.inf, "3"]


@pytest.mark.parametrize(
    ("name", "values", "wanted"),
    [
        ("connect", SECONDS, "a number"),
        ("total", SECONDS, "a number"),
        ("first_token", SECONDS[:-1], "a number"),
        ("stall", SECONDS[:-1], "a number"),
        ("stall", ["learnt", ""], 'a number or "learned".'),
        ("backoff", SECONDS[1:], "a number"),
        ("backoff_limit", SECONDS[1:], "a number"),
        ("jitter", SHARES, "a number"),
        ("hedge_share", SHARES, "a number"),
        ("retries", COUNTS, "a whole number"),
        ("max_queued", COUNTS, "a whole number"),
        ("max_concurrent", [0, -1, 1.5, True], "a whole number"),
        ("hedge", [1, None, "yes"], "true or false, got"),
    ],
)
def test_a_policy_that_cannot_be_says_what_can(name: str, values: list[Any], wanted: str) -> None:
    for value in values:
        with pytest.raises(ConfigError) as found:
            Policy(**{name: value})
        assert str(found.value).startswith(f"Policy({name}=...): expected {wanted}")


@pytest.mark.parametrize("value", [True, {}, 5, Policy()])
def test_a_breaker_is_made_as_one(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^Policy\(breaker=\.\.\.\): make it with Breaker\(\.\.\.\)\.$"):
        Policy(breaker=value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"failure_rate": 0}, "Breaker(failure_rate=...): expected a number > 0."),
        ({"failure_rate": 1.5}, "Breaker(failure_rate=...): expected a number <= 1."),
        ({"slow_rate": True}, "Breaker(slow_rate=...): expected a number, got true or false."),
        ({"slow_call": 0}, "Breaker(slow_call=...): expected a number > 0."),
        ({"at_least": 0}, "Breaker(at_least=...): expected a whole number >= 1."),
        ({"window": 5}, "The breaker's at_least is 10; give at most its window, which is 5."),
        ({"cool": 0}, "Breaker(cool=...): expected a number > 0."),
        ({"probes": 0}, "Breaker(probes=...): expected a whole number >= 1."),
    ],
)
def test_a_breaker_that_cannot_be_says_what_can(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as found:
        Breaker(**given)
    assert str(found.value) == said


def test_numbers_of_numpy_are_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    assert Policy(total=numpy.float64(2.5)).total == 2.5


def test_policies_that_say_the_same_are_the_same() -> None:
    """For agents share a service if they treat it alike."""
    one, same = Policy(retries=1, breaker=Breaker(cool=5)), Policy(retries=1, breaker=Breaker(cool=5))
    assert (one, hash(one)) == (same, hash(same))
    assert one != Policy(retries=1)


def test_the_edges_of_what_can_be() -> None:
    Policy(connect=1e-9, first_token=None, stall=None, total=1e9, retries=0, backoff=0, backoff_limit=0, jitter=0)
    Policy(jitter=1, hedge_share=0, breaker=None, max_concurrent=1, max_queued=0, stall="learned")
    Breaker(failure_rate=1, slow_call=1e-9, slow_rate=1, window=1, at_least=1, cool=1e-9, probes=1)
