"""How a service is treated, as settings: what may be said, and what is said of what may not."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from hotloop import Breaker, Policy
from hotloop.errors import ConfigError

SECONDS = [0, -1, math.inf, math.nan, True, "1", None]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("connect", SECONDS),
        ("total", SECONDS),
        ("first_token", SECONDS[:-1]),
        ("stall", [*SECONDS[:-1], "learnt"]),
        ("backoff", [-1, math.inf, math.nan, True, "1", None]),
        ("backoff_limit", [-1, math.inf, True, None]),
        ("jitter", [-0.1, 1.1, math.nan, True, None]),
        ("hedge_share", [-0.1, 1.1, True, "5%"]),
        ("retries", [-1, 1.5, True, None, math.inf]),
        ("max_queued", [-1, 1.5, True, None]),
        ("max_concurrent", [0, -1, 1.5, True]),
        ("hedge", [1, None, "yes"]),
        ("breaker", [True, {}, 5]),
    ],
)
def test_a_policy_that_cannot_be_says_which_field(name: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(ConfigError, match=re.escape(f"Policy({name}=...): ")):
            Policy(**{name: value})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"failure_rate": 0}, "Breaker(failure_rate=...): "),
        ({"failure_rate": 1.5}, "Breaker(failure_rate=...): "),
        ({"slow_rate": True}, "Breaker(slow_rate=...): "),
        ({"slow_call": 0}, "Breaker(slow_call=...): "),
        ({"window": 0}, "Breaker(window=...): "),
        ({"window": 5}, "The breaker's at_least is 10; give at most its window, which is 5."),
        ({"cool": 0}, "Breaker(cool=...): "),
        ({"probes": 0}, "Breaker(probes=...): "),
    ],
)
def test_a_breaker_that_cannot_be_says_why(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        Breaker(**given)


def test_policies_that_say_the_same_are_the_same() -> None:
    """For agents share a service if they treat it alike."""
    one, same = Policy(retries=1, breaker=Breaker(cool=5)), Policy(retries=1, breaker=Breaker(cool=5))
    assert (one, hash(one)) == (same, hash(same))
    assert one != Policy(retries=1)


def test_the_edges_of_what_can_be() -> None:
    Policy(connect=1e-9, first_token=None, stall=None, total=1e9, retries=0, backoff=0, backoff_limit=0, jitter=0)
    Policy(jitter=1, hedge_share=0, breaker=None, max_concurrent=1, max_queued=0, stall="learned")
    Breaker(failure_rate=1, slow_call=1e-9, slow_rate=1, window=1, at_least=1, cool=1e-9, probes=1)
