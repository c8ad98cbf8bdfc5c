"""Runs that a budget stops: when, with what error, and what is left of them."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
import pytest

from budgeted import Slow, agent_of, ended, look, working
from hotloop import Agent, Budget, BudgetExceeded, Memory, Model, Policy, RunError, tool
from hotloop.errors import ApprovalRequired
from hotloop.events import ReplyFinished, TextDelta
from hotloop.lab.faults import FaultyTransport
from hotloop.testing import ScriptedModel, call, faults, run_virtual, say

ONE = [call("look", key="a"), "Yes."]  # 130 ms until the call is written, 300 ms the tool, 100 ms the answer


@pytest.fixture(autouse=True)
def _nobody_works():
    working.clear()


@pytest.mark.parametrize(
    ("budget", "script", "row", "ms"),
    [
        ({"total": 0.05}, ONE, "total", 50),  # before the first token
        ({"total": 0.12}, ONE, "total", 120),  # while it writes
        ({"total": 0.35}, ONE, "total", 350),  # in the tool
        ({"tools": 0.2}, ONE, "tools", 330),
        ({"tools": 0.4}, [call("look", key="a"), call("look", key="b"), "Yes."], "tools", 130 + 300 + 130 + 100),
        ({"model": 0.2}, ONE, "model", 130 + 300 + 70),
        ({"turn": Budget(total=0.25)}, ONE, "turn.total", 250),
        ({"turn": Budget(model=0.12)}, ONE, "turn.model", 120),
        ({"turn": Budget(tools=0.2)}, [call("look", key="a", ms=150), *ONE], "turn.tools", 150 + 150 + 130 + 200),
        ({"total": 5, "tools": 0.2, "turn": Budget(total=0.3)}, ONE, "turn.total", 300),
    ],
)
def test_it_stops_the_moment_that_a_limit_is_reached(budget, script, row, ms):
    error, trace = ended(agent_of(script, Budget(**budget, on_exceed="abort")))
    assert isinstance(error, BudgetExceeded)
    assert error.row == row
    assert trace.end_to_end_ms == ms
    limit = budget["turn"].limits() if row.startswith("turn.") else Budget(**budget).limits()
    assert error.limit == error.actual == limit[row.removeprefix("turn.")] / 1e9
    assert working == set()


def test_the_error_says_what_to_do():
    error, _ = ended(agent_of(ONE, Budget(tools=0.2, on_exceed="abort")))
    assert str(error).startswith("The run was stopped: it had used up budget.tools, which is 0.2 s. Raise it, or")
    assert isinstance(error, RunError) and error.retryable
    assert (error.stage, error.elapsed_ms) == ("tool", 330)


@pytest.mark.parametrize("on_exceed", ["warn", "abort"])
def test_a_run_within_its_budget_does_not_notice_it(on_exceed):
    budget = Budget(total=0.55, model=0.24, tools=0.31, turn=Budget(total=0.44), on_exceed=on_exceed)
    output, trace = ended(agent_of(ONE, budget))
    assert (output, trace.end_to_end_ms) == ("Yes.", 530)
    assert "warnings" not in trace.facts


def test_a_tool_that_began_early_counts_from_its_own_beginning():
    """The first call is sealed while the second is written: its 200 ms are used up 200 ms later, wherever that is."""
    script = [[call("look", key="a", ms=900), call("look", key="b", ms=10)], "Yes."]
    _, free = ended(agent_of(script, None))
    began = min(stage.start for stage in free.stages if stage.kind == "tool") - free.start
    assert began < 200_000_000
    error, trace = ended(agent_of(script, Budget(tools=0.2, on_exceed="abort")))
    assert error.row == "tools"
    assert trace.end_to_end_ms == began / 1e6 + 200
    assert next(row for row in trace.budget() if row.stage == "tools").actual_ms == 200


def test_a_tool_beside_a_reply_that_goes_on_does_not_count():
    """What is not on the critical path costs nobody time."""
    script = [[call("look", key="a", ms=50), call("look", key="b" * 400, ms=1)], "Yes."]
    _, free = ended(agent_of(script, None))
    spent = next(row for row in free.budget() if row.stage == "tools").actual_ms
    assert spent < 30 < 50
    output, trace = ended(agent_of(script, Budget(tools=0.03, on_exceed="abort")))
    assert (output, trace.end_to_end_ms) == ("Yes.", free.end_to_end_ms)


def test_connecting_counts_for_the_network():
    def stopped(**budget: float) -> Any:
        slow = Slow(ScriptedModel(ONE, ttft=0.1, tpot=0.01), connect=0.5)
        error, trace = ended(agent_of(None, Budget(**budget, on_exceed="abort"), endpoint=slow))
        return error.row, trace.end_to_end_ms, slow.open

    assert stopped(network=0.2) == ("network", 200, 0)
    assert stopped(network=0.7) == ("network", 500 + 130 + 300 + 200, 0)
    assert stopped(model=0.05) == ("model", 550, 0)


def test_with_a_reserve_the_model_answers_before_it_is_stopped():
    budget = Budget(total=0.5, answer_reserve=0.2, on_exceed="abort")
    output, trace = ended(agent_of([call("look", key="a", ms=9000), "From what I have."], budget, ttft=0.05))
    assert (output, trace.end_to_end_ms) == ("From what I have.", 380)
    error, trace = ended(agent_of([call("look", key="a", ms=9000), "word " * 99], budget, ttft=0.05))
    assert (error.row, trace.end_to_end_ms) == ("total", 500)


@pytest.mark.parametrize(
    "policy",
    [Policy(retries=9, backoff=0.3, jitter=0.0), Policy(retries=9, backoff=0.01)],
)
def test_retries_and_their_waits_end_with_it(policy):
    broken = FaultyTransport(ScriptedModel(lambda request: "Yes.", ttft=0.1), [faults.Cut(0)] * 99)
    agent = Agent(model=Model(name="m", endpoint=broken, policy=policy), budget=Budget(model=0.55, on_exceed="abort"))
    error, trace = ended(agent)
    assert (error.row, trace.end_to_end_ms) == ("model", 550)


def test_both_requests_of_a_hedge_end_with_it():
    slow = Slow(FaultyTransport(ScriptedModel(lambda request: "Yes.", ttft=0.1), _as_usual(30) + [faults.Late(5)] * 2))
    agent = Agent(
        model=Model(name="m", endpoint=slow, policy=Policy(hedge=True)), budget=Budget(model=0.5, on_exceed="abort")
    )

    async def main() -> Any:
        for _ in range(30):
            await agent.run("go")
        with pytest.raises(BudgetExceeded) as caught:
            await agent.run("go")
        return caught.value

    error = run_virtual(main())
    assert [each.outcome for each in error.trace.attempts] == ["cancelled", "cancelled"]
    assert (error.row, error.trace.end_to_end_ms, slow.open) == ("model", 500, 0)


def _as_usual(count: int) -> list[Any]:
    return [faults.Late(0.02)] * 3 + [None] * (count - 3)


def test_a_fallback_ends_with_it_too():
    broken, slow = ScriptedModel([say("")]), ScriptedModel(["Yes."], ttft=5.0)
    agent = agent_of(None, Budget(total=1.0, on_exceed="abort"), endpoint=broken, fallback=[_model(slow)])
    error, trace = ended(agent)
    assert (error.row, trace.end_to_end_ms) == ("total", 1000)
    assert [each.outcome for each in trace.attempts] == ["rejected", "cancelled"]


def _model(endpoint: Any) -> Model:
    return Model(name="other", endpoint=endpoint)


def test_nothing_is_left_of_it():
    slow = Slow(ScriptedModel([[call("look", key=key, ms=9000) for key in "abc"]], ttft=0.05))

    async def main() -> tuple[int, set[str], int]:
        agent = agent_of(None, Budget(total=0.2, on_exceed="abort"), endpoint=slow)
        with pytest.raises(BudgetExceeded):
            await agent.run("go")
        return len(asyncio.all_tasks()), set(working), slow.open

    assert run_virtual(main()) == (1, set(), 0)


@tool
async def stubborn() -> str:
    """Takes its time to end."""
    try:
        await asyncio.sleep(9)
    finally:
        await asyncio.sleep(0.03)
    return "done"


def test_what_takes_time_to_end_is_waited_for():
    error, trace = ended(agent_of([call("stubborn"), "Yes."], Budget(total=0.2, on_exceed="abort"), tools=[stubborn]))
    assert (error.row, error.actual, trace.end_to_end_ms) == ("total", 0.2, 230)


def test_a_plain_function_is_not_waited_for():
    @tool
    def sleepy() -> str:
        time.sleep(0.5)
        return "done"

    agent = agent_of([call("sleepy")], Budget(tools=0.05, on_exceed="abort"), ttft=0.0, tpot=0.0, tools=[sleepy])
    begun = time.perf_counter()
    with pytest.raises(BudgetExceeded):
        agent.run_sync("go")
    assert time.perf_counter() - begun < 0.4


def test_a_stream_ends_with_the_error_after_what_was_told():
    async def main() -> list[Any]:
        seen: list[Any] = []
        agent = agent_of(["one two three four"], Budget(model=0.125, on_exceed="abort"))
        with pytest.raises(BudgetExceeded):
            async for event in agent.stream("go"):
                seen += [event]
        return seen

    seen = run_virtual(main())
    assert [event.text for event in seen if isinstance(event, TextDelta)] == ["one", " two", " three"]
    assert not any(isinstance(event, ReplyFinished) for event in seen)


def test_a_session_keeps_nothing_of_the_turn_and_goes_on():
    async def main() -> Any:
        script = ["Hello Ann.", "word " * 99, "Ann."]
        agent = agent_of(script, Budget(total=0.5, on_exceed="abort"), sessions=":memory:")
        session = agent.session("ann")
        await session.run("I am Ann.")
        with pytest.raises(BudgetExceeded):
            await session.run("Tell me all.")
        result = await session.run("Who am I?")
        return result.output, [message["content"] for message in await session.history()]

    output, history = run_virtual(main())
    assert output == "Ann."
    assert history == ["I am Ann.", "Hello Ann.", "Who am I?", "Ann."]


def test_the_wait_for_a_session_does_not_count():
    async def main() -> list[float]:
        agent = agent_of(lambda request: "Yes.", Budget(total=0.15, on_exceed="abort"), sessions=":memory:")
        session = agent.session("ann")
        results = await asyncio.gather(*[session.run("go") for _ in range(3)])
        return [result.trace.end_to_end_ms for result in results]

    assert run_virtual(main()) == [100, 200, 300]


def test_the_time_that_a_person_takes_does_not_count(tmp_path):
    @tool(approval="always")
    async def refund(order: str) -> str:
        await asyncio.sleep(0.1)
        return "paid"

    async def main() -> Any:
        script = [call("refund", order="1"), "Done."]
        budget = Budget(total=0.3, on_exceed="abort")
        agent = agent_of(script, budget, tools=[refund], approvals=tmp_path / "paused.db")
        with pytest.raises(ApprovalRequired) as paused:
            await agent.run("go")
        await asyncio.sleep(60)
        (asked,) = paused.value.calls
        agent.approvals.decide(paused.value.run_id, asked.call_id, asked.digest, approved=True, by="ann")
        return await agent.resume(paused.value.run_id)

    result = run_virtual(main())
    assert (result.output, result.trace.end_to_end_ms) == ("Done.", 200)


def test_facts_that_come_late_are_left_out_and_do_not_stop_it():
    class Late(Memory):
        async def recall(self, request: str, *, user: str, session: str = "") -> Any:
            await asyncio.sleep(5)

    budget = Budget(memory=0.2, on_exceed="abort")
    output, trace = ended(agent_of(["Yes."], budget, memory=Late(":memory:", timeout=1.0)), user="ann")
    assert (output, trace.end_to_end_ms, trace.facts["memory"]) == ("Yes.", 300, "late, left out")


def test_who_cancels_a_run_that_is_being_stopped_gets_no_other_error():
    async def main() -> None:
        agent = agent_of([call("stubborn"), "Yes."], Budget(total=0.2, on_exceed="abort"), tools=[stubborn])
        task = asyncio.create_task(agent.run("go"))
        await asyncio.sleep(0.21)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_virtual(main())


def test_a_typed_answer_is_whole_or_none():
    class Order(msgspec.Struct):
        status: str

    script = ['{"status": "shipped to a place far away"}']
    error, _ = ended(agent_of(script, Budget(model=0.12, on_exceed="abort"), tools=[], output=Order))
    assert error.row == "model"
    output, _ = ended(agent_of(script, Budget(model=1.0, on_exceed="abort"), tools=[], output=Order))
    assert output == Order("shipped to a place far away")


def test_it_goes_on_record_as_what_it_is():
    class Kept:
        def __init__(self) -> None:
            self.records: list[Any] = []

        def export(self, records: Any) -> None:
            self.records += records

        def close(self) -> None: ...

    kept = Kept()
    ended(agent_of(ONE, Budget(total=0.2, on_exceed="abort"), exporters=[kept]))
    from hotloop.trace.recording.recorder import recorder

    recorder.flush(5.0)
    (record,) = kept.records
    assert (record.outcome, record.error, record.limits) == ("failed", "BudgetExceeded", {"total": 200_000_000})


def test_many_looks_at_a_limit_that_is_nearly_used_up_cost_little():
    """The network has 0.1 ms left of its limit while the model thinks for 2 s."""
    slow = Slow(ScriptedModel(["Yes."], ttft=2.0), connect=0.1)
    output, trace = ended(agent_of(None, Budget(network=0.1001, on_exceed="abort"), endpoint=slow))
    assert (output, trace.end_to_end_ms) == ("Yes.", 2100)
    assert look.read_only
