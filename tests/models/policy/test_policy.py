"""How a service is treated, as settings: what may be said, and what is said of what may not."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hotloop import Breaker, Policy
from hotloop.errors import ConfigError

SECONDS = [0, -1, math.inf, math.nan, True, "1", None]


@pytest.mark.parametrize(
    ("name", "values", "wanted"),
    [
        ("connect", SECONDS, "seconds, more than 0"),
        ("total", SECONDS, "seconds, more than 0"),
        ("first_token", SECONDS[:-1], "seconds, more than 0"),
        ("stall", [*SECONDS[:-1], "learnt"], "seconds, more than 0"),
        ("backoff", [-1, math.inf, math.nan, True, "1", None], "seconds, 0 or more"),
        ("backoff_limit", [-1, math.inf, True, None], "seconds, 0 or more"),
        ("jitter", [-0.1, 1.1, math.nan, True, None], "a share from 0 to 1"),
        ("hedge_share", [-0.1, 1.1, True, "5%"], "a share from 0 to 1"),
        ("retries", [-1, 1.5, True, None, math.inf], "a whole number from 0 on"),
        ("max_queued", [-1, 1.5, True, None], "a whole number from 0 on"),
        ("max_concurrent", [0, -1, 1.5, True], "a whole number from 1 on"),
        ("hedge", [1, None, "yes"], "True or False"),
        ("breaker", [True, {}, 5], "a Breaker or None"),
    ],
)
def test_a_policy_that_cannot_be_says_what_can(name: str, values: list[Any], wanted: str) -> None:
    for value in values:
        with pytest.raises(ConfigError) as found:
            Policy(**{name: value})
        assert str(found.value) == f"policy.{name} is {value!r}; give {wanted}."


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"failure_rate": 0}, "policy.breaker.failure_rate is 0; give a share up to 1."),
        ({"failure_rate": 1.5}, "policy.breaker.failure_rate is 1.5; give a share up to 1."),
        ({"slow_rate": True}, "policy.breaker.slow_rate is True; give a share up to 1."),
        ({"slow_call": 0}, "policy.breaker.slow_call is 0; give seconds, more than 0."),
        ({"window": 0, "at_least": 0}, "policy.breaker.at_least is 0; give a whole number from 1 on."),
        ({"window": 5}, "policy.breaker.at_least is 10; give a number up to the window."),
        ({"cool": 0}, "policy.breaker.cool is 0; give seconds, more than 0."),
        ({"probes": 0}, "policy.breaker.probes is 0; give a whole number from 1 on."),
    ],
)
def test_a_breaker_that_cannot_be_says_what_can(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as found:
        Breaker(**given)
    assert str(found.value) == said


def test_policies_that_say_the_same_are_the_same() -> None:
    """For agents share a service if they treat it alike."""
    one, same = Policy(retries=1, breaker=Breaker(cool=5)), Policy(retries=1, breaker=Breaker(cool=5))
    assert (one, hash(one)) == (same, hash(same))
    assert one != Policy(retries=1)


def test_the_edges_of_what_can_be() -> None:
    Policy(connect=1e-9, first_token=None, stall=None, total=1e9, retries=0, backoff=0, backoff_limit=0, jitter=0)
    Policy(jitter=1, hedge_share=0, breaker=None, max_concurrent=1, max_queued=0, stall="learned")
    Breaker(failure_rate=1, slow_call=1e-9, slow_rate=1, window=1, at_least=1, cool=1e-9, probes=1)
