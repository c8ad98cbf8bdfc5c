"""Budgets, what they refuse, and the deadlines that follow from them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.budget import Budget, Deadline
from hotloop.errors import ConfigError

FULL = Budget(total=1.5, model=0.6, tools=0.4, memory=0.2, network=0.2, other=0.1, answer_reserve=0.3)
MS = 1_000_000


def test_limits_are_nanoseconds_by_row_with_the_total_last() -> None:
    assert list(FULL.limits().items()) == [
        ("model", 600 * MS),
        ("tools", 400 * MS),
        ("memory", 200 * MS),
        ("network", 200 * MS),
        ("other", 100 * MS),
        ("total", 1500 * MS),
    ]


def test_only_limits_that_are_set_are_rows() -> None:
    assert Budget().limits() == {}
    assert Budget(tools=0).limits() == {"tools": 0}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"tools": -0.1}, "budget.tools is -0.1"),
        ({"total": float("inf")}, "endless"),
        ({"total": float("nan")}, "budget.total is nan"),
        ({"model": "600ms"}, "budget.model is '600ms'; give seconds"),
        ({"model": True}, "budget.model is True"),
        ({"total": 0}, "budget.total is 0"),
        ({"total": 1, "model": 0.6, "tools": 0.5}, "add up to 1.1 s, over its total of 1 s"),
        ({"total": 1, "answer_reserve": 1.0}, "leaves nothing"),
        ({"answer_reserve": 0.5}, "set the total"),
        ({"answer_reserve": None}, "answer_reserve is None"),
    ],
)
def test_a_budget_that_cannot_hold_is_refused(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Budget(**values)


def test_parts_that_make_up_the_total_exactly_fit() -> None:
    assert Budget(total=0.3, model=0.1, tools=0.2).limits()["total"] == 300 * MS


def test_the_answer_reserve_is_kept_from_tools() -> None:
    deadline = Deadline(FULL, start=7)
    assert deadline.remaining_ns(7) == 1500 * MS
    assert deadline.for_tools_ns(7) == 1200 * MS
    assert not deadline.answer_now(6 + 1200 * MS)
    assert deadline.answer_now(7 + 1200 * MS)


def test_nothing_remains_after_the_end() -> None:
    deadline = Deadline(FULL, start=0)
    assert deadline.remaining_ns(2000 * MS) == 0
    assert deadline.for_tools_ns(2000 * MS) == 0


@pytest.mark.parametrize("budget", [None, Budget(), Budget(model=1.0)])
def test_without_a_total_there_is_no_deadline(budget: Budget | None) -> None:
    deadline = Deadline(budget, start=0)
    assert deadline.remaining_ns(10**15) is None
    assert deadline.for_tools_ns(10**15) is None
    assert not deadline.answer_now(10**15)


@given(st.floats(0.001, 1e5), st.floats(0.01, 0.99), st.integers(0, 10**18), st.integers(0, 10**15))
def test_tools_end_when_only_the_reserve_is_left(total: float, share: float, start: int, later: int) -> None:
    deadline = Deadline(Budget(total=total, answer_reserve=total * share), start)
    now = start + later
    left, for_tools = deadline.remaining_ns(now), deadline.for_tools_ns(now)
    assert left is not None and for_tools is not None
    assert 0 <= for_tools <= left
    assert deadline.answer_now(now) == (for_tools == 0)


def test_a_total_without_a_reserve_only_reports() -> None:
    deadline = Deadline(Budget(total=1.0), 0)
    assert deadline.remaining_ns(10**10) is None
    assert deadline.for_tools_ns(10**10) is None
    assert not deadline.answer_now(10**10)
