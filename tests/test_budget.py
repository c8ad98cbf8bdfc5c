"""Budgets, what they refuse, and the deadlines that follow from them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgeted import agent_of, ended
from hotloop import Agent, Memory
from hotloop.budget import Budget, Deadline, Degrade
from hotloop.config.spec import load_spec
from hotloop.errors import ConfigError
from hotloop.testing import call, run_virtual

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
        ({"on_exceed": "stop"}, 'budget.on_exceed is \'stop\'; give "warn", "degrade" or "abort"'),
        ({"turn": 0.8}, r"budget.turn is 0.8; make it with Budget\(...\)"),
        ({"turn": Budget(turn=Budget())}, "budget.turn.turn is for whole runs"),
        ({"turn": Budget(total=1, answer_reserve=0.1)}, "budget.turn.answer_reserve is for whole runs"),
        ({"degrade": [Degrade(max_tokens=9)]}, 'with on_exceed "degrade"; set that too'),
        ({"on_exceed": "degrade", "degrade": ["fast"]}, r"give a list of Degrade\(...\)"),
    ],
)
def test_a_budget_that_cannot_hold_is_refused(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Budget(**values)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "changes nothing"),
        ({"max_tokens": 0}, r"Degrade\(max_tokens=...\): expected a whole number >= 1"),
        ({"model": ""}, "give the name of one of the agent's models"),
        ({"model": 3}, "give the name of one of the agent's models"),
    ],
)
def test_a_step_that_cannot_be_taken_is_refused(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Degrade(**values)


def test_the_limits_of_a_turn_come_after_the_runs() -> None:
    budget = Budget(total=2, tools=1, turn=Budget(total=0.8, model=0.5))
    assert list(budget.limits()) == ["tools", "total", "turn.model", "turn.total"]


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


@pytest.mark.parametrize(
    "budget", [None, Budget(), Budget(model=1.0, on_exceed="abort"), Budget(total=1.0, on_exceed="degrade")]
)
def test_without_a_total_that_ends_it_there_is_no_deadline(budget: Budget | None) -> None:
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


def test_a_total_that_aborts_is_a_deadline() -> None:
    deadline = Deadline(Budget(total=1.0, on_exceed="abort"), 0)
    assert (deadline.remaining_ns(400 * MS), deadline.for_tools_ns(400 * MS)) == (600 * MS, 600 * MS)


@pytest.mark.parametrize(
    ("budget", "end", "tools_end"),
    [
        (None, 700, 700),
        (FULL, 700, 400),
        (Budget(total=0.5, answer_reserve=0.1), 500, 400),
        (Budget(total=5, on_exceed="abort"), 700, 700),
    ],
)
def test_the_earlier_of_the_runs_own_end_and_its_callers_holds(budget: Budget | None, end: int, tools_end: int) -> None:
    deadline = Deadline(budget, 0, callers=700 * MS)
    assert (deadline.end, deadline.tools_end) == (end * MS, tools_end * MS)


def test_a_deadline_before_the_answer_still_tells_when_the_budget_stops_a_tool() -> None:
    deadline = Deadline(FULL, 0, until_abort_ns=lambda now: 50 * MS - now)
    assert deadline.before_answer(10 * MS, most=100 * MS).until_abort_ns(10 * MS) == 40 * MS


# What is told of a run that went over


def test_what_was_exceeded_is_told_once_in_the_log_and_in_the_trace(caplog: pytest.LogCaptureFixture) -> None:
    budget = Budget(total=0.5, tools=0.2, turn=Budget(total=0.4, model=0.3))
    _, trace = ended(agent_of([call("look", key="a"), "Yes."], budget), trace_id="t")
    over = "tools 300 ms of 200 ms, total 530 ms of 500 ms, turn.total 430 ms of 400 ms"
    assert trace.facts["warnings"] == [f"over the budget: {over}"]
    assert [record.message for record in caplog.records] == [f"Run t was over its budget: {over}."]
    assert f"warning: over the budget: {over}" in str(trace)


@pytest.mark.parametrize("limits", [{"total": 0.53}, {"tools": 0.3}, {"turn": Budget(total=0.43)}, {}])
def test_a_limit_that_is_just_kept_is_not_exceeded(limits: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    _, trace = ended(agent_of([call("look", key="a"), "Yes."], Budget(**limits)))
    assert ("warnings" in trace.facts, caplog.records) == (False, [])


def test_tools_beside_each_other_are_not_counted_twice() -> None:
    script = [[call("look", key="a"), call("look", key="b")], "Yes."]
    _, trace = ended(agent_of(script, Budget(tools=0.4)))
    assert "warnings" not in trace.facts


def test_the_wait_for_a_session_is_not_told_of() -> None:
    async def main() -> list[dict[str, Any]]:
        session = agent_of(lambda request: "Yes.", Budget(total=0.15, other=0.01), sessions=":memory:").session("ann")
        results = await asyncio.gather(*[session.run("go") for _ in range(2)])
        return [result.trace.facts for result in results]

    assert ["warnings" in facts for facts in run_virtual(main())] == [False, False]


def test_a_run_that_is_cancelled_before_anything_was_done_is_told_of_too() -> None:
    class Late(Memory):
        async def recall(self, request: str, *, user: str, session: str = "") -> Any:
            await asyncio.sleep(9)

    async def main() -> None:
        budget = Budget(total=0.5, turn=Budget(total=0.4, memory=0.1))
        agent = agent_of(["Yes."], budget, memory=Late(":memory:", timeout=5.0))
        task = asyncio.create_task(agent.run("go", user="ann"))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_virtual(main())


# In a file

DECLARED = """\
inference: {endpoint: local, model: smollm2}
budget:
  total: 1.5s
  tools: 400ms
  answer_reserve: 300ms
  on_exceed: degrade
  turn:
    total_ms: 900
    on_exceed: warn
  degrade:
    - max_tokens: 120
    - {model: fast}
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "agent.yaml"
    path.write_text(text)
    return path


def test_it_is_declared_in_a_file(tmp_path: Path) -> None:
    assert load_spec(write(tmp_path, DECLARED)).budget == Budget(
        total=1.5,
        tools=0.4,
        answer_reserve=0.3,
        on_exceed="degrade",
        turn=Budget(total=0.9, on_exceed="warn"),
        degrade=(Degrade(max_tokens=120), Degrade(model="fast")),
    )


@pytest.mark.parametrize(
    ("line", "becomes", "says"),
    [
        ("  on_exceed: degrade", "  on_exceed: stop", '6: budget.on_exceed: expected "warn" or "degrade" or "abort"'),
        (
            "  on_exceed: degrade",
            "",
            '2: budget: budget.degrade says what to do with on_exceed "degrade"; set that too',
        ),
        ("    on_exceed: warn", "    answer_reserve: 1s", "7: budget.turn: budget.answer_reserve"),
        ("    on_exceed: warn", "    tols: 1s", "9: budget.turn.tols: unknown key; did you mean tools?"),
        ("    total_ms: 900", "    total: soon", "8: budget.turn.total: 'soon' is no duration"),
        (
            "    - max_tokens: 120",
            "    - max_tokens: 0",
            "11: budget.degrade[0].max_tokens: expected a whole number >= 1",
        ),
        ("    - max_tokens: 120", "    - {}", "11: budget.degrade[0]: Degrade() changes nothing"),
        ("    - {model: fast}", "    - {model: [fast]}", "12: budget.degrade[1]: Degrade(model=...): give the name"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, line: str, becomes: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_spec(write(tmp_path, DECLARED.replace(line, becomes)))
    assert f"agent.yaml:{says}" in str(caught.value)


def test_a_declared_model_that_there_is_not_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the agent has no model 'fast'; there are smollm2"):
        Agent.from_yaml(write(tmp_path, DECLARED))
