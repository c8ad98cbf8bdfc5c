"""What a tool has left of its run's time, and what an agent has that is run in a tool."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from budgeted import agent_of, contents, ended, look
from hotloop import Agent, Budget, BudgetExceeded, HotloopError, Model, Policy, remaining, tool
from hotloop.errors import ReplyTimeout
from hotloop.lab.faults import FaultyTransport
from hotloop.testing import ScriptedModel, call, faults, run_virtual

left: list[float | None] = []


@pytest.fixture(autouse=True)
def _nothing_known():
    left.clear()


@tool
async def ask_left(ms: int = 0) -> str:
    """How much time there is after a while."""
    await asyncio.sleep(ms / 1000)
    left.append(remaining())
    return "asked"


def helper(script: Any, budget: Budget | None = None, *, ttft: float = 0.1, **options: Any) -> Agent:
    return agent_of(script, budget, ttft=ttft, tpot=0.01, **options)


def asking(inner: Agent, errors: list[Exception] | None = None, **options: Any) -> Any:
    """A tool that asks another agent."""

    @tool(**options)
    async def expert() -> str:
        """Knows more."""
        try:
            return (await inner.run("go")).output
        except Exception as error:
            (errors if errors is not None else []).append(error)
            raise

    return expert


def outer(tool: Any, budget: Budget | None, **options: Any) -> tuple[Agent, ScriptedModel]:
    """An agent that calls the tool after 100 ms and answers 100 ms after it."""
    model = ScriptedModel([call(tool.name), "So it is."], ttft=0.1)
    return Agent(model="m", endpoint=model, tools=[tool], budget=budget, **options), model


# What a tool has left


@pytest.mark.parametrize(
    ("budget", "timeout", "ms", "seconds"),
    [
        (None, None, 0, 30.0),  # the usual time of a tool
        (None, 2.0, 500, 1.5),
        (Budget(total=1.0), 2.0, 0, 2.0),  # which stops nothing
        (Budget(total=1.0, answer_reserve=0.3), 2.0, 0, 0.6),
        (Budget(total=1.0, answer_reserve=0.3), 0.5, 100, 0.4),
        (Budget(total=1.0, on_exceed="abort"), 2.0, 200, 0.7),
        (Budget(tools=0.5, on_exceed="abort"), 2.0, 200, 0.3),
        (Budget(turn=Budget(total=0.5), on_exceed="abort"), 2.0, 0, 0.4),
        (Budget(model=0.5, on_exceed="abort"), 2.0, 0, 2.0),
        (Budget(tools=0.5, on_exceed="degrade"), 2.0, 0, 2.0),
    ],
)
def test_a_tool_may_ask_how_much_time_it_has(budget, timeout, ms, seconds):
    script = [call("ask_left", ms=ms), "Yes."]
    ended(agent_of(script, budget, tpot=0.0, tools=[ask_left], tool_timeout=timeout or 30.0))
    assert left == [pytest.approx(seconds, abs=1e-6)]


def test_without_any_limit_there_is_none():
    ended(agent_of([call("ask_left"), "Yes."], None, tools=[ask_left], tool_timeout=None))
    assert (left, remaining()) == ([None], None)


def test_a_plain_function_may_ask_in_its_thread():
    @tool(timeout=5.0)
    def waits() -> str:
        left.append(remaining())
        time.sleep(0.05)
        left.append(remaining())
        return "waited"

    agent_of([call("waits"), "Yes."], None, ttft=0.0, tpot=0.0, tools=[waits]).run_sync("go")
    before, after = left
    assert before is not None and after is not None
    assert 4.5 < after < before - 0.045 < 5.0


# An agent in a tool


def test_it_has_what_the_tool_has_left_and_answers_in_time():
    """The outer tool has 600 ms; of these the inner agent keeps 150 for its answer."""
    inner = helper([call("look", key="a", ms=9000), "From what I know."], Budget(total=60, answer_reserve=0.15))
    agent, model = outer(asking(inner), Budget(total=1.0, answer_reserve=0.3))
    output, trace = ended(agent)
    assert contents(model.requests[-1], "tool") == ["From what I know."]
    assert (output, trace.end_to_end_ms) == ("So it is.", 100 + 450 + 100 + 30 + 100)


@pytest.mark.parametrize("own", [None, Budget(total=60, on_exceed="abort"), Budget(total=60)])
def test_one_that_keeps_nothing_for_an_answer_ends_with_its_tool(own):
    inner = helper([call("look", key="a", ms=9000), "Never said."], own)
    agent, model = outer(asking(inner), Budget(total=1.0, answer_reserve=0.3))
    output, trace = ended(agent)
    assert contents(model.requests[-1], "tool") == ['{"error":"expert did not finish within 0.6 s."}']
    assert (output, trace.end_to_end_ms) == ("So it is.", 800)


def test_that_its_time_is_over_is_logged_in_a_line(caplog):
    inner = helper([call("look", key="a", ms=9000), "Never said."], Budget(total=0.3, on_exceed="abort"))
    ended(outer(asking(inner), Budget(total=5))[0])
    [line] = [record for record in caplog.records if record.name == "hotloop.tools"]
    assert line.getMessage().startswith("The tool expert failed: BudgetExceeded: ")
    assert line.exc_info is None


def test_its_own_earlier_limit_holds():
    errors: list[Exception] = []
    inner = helper([call("look", key="a", ms=9000)], Budget(total=0.2, on_exceed="abort"))
    agent, model = outer(asking(inner, errors), Budget(total=1.0, answer_reserve=0.3))
    _, trace = ended(agent)
    assert [(error.row, error.limit) for error in errors if isinstance(error, BudgetExceeded)] == [("total", 0.2)]
    assert "BudgetExceeded: The run was stopped" in contents(model.requests[-1], "tool")[0]
    assert trace.end_to_end_ms == 400


def test_what_stands_in_for_the_tool_does():
    inner = helper([call("look", key="a", ms=9000)])
    agent, model = outer(asking(inner, on_timeout="nobody knows"), Budget(total=1.0, answer_reserve=0.3))
    ended(agent)
    assert contents(model.requests[-1], "tool") == ["nobody knows"]


def test_its_retries_and_their_waits_are_over_by_then():
    broken = FaultyTransport(ScriptedModel(lambda request: "Yes.", ttft=0.1), [faults.Cut(0)] * 99)
    policy = Policy(retries=9, backoff=0.4, jitter=0.0)
    errors: list[Exception] = []
    agent, _ = outer(
        asking(Agent(model=Model(name="m", endpoint=broken, policy=policy)), errors), None, tool_timeout=0.7
    )
    _, trace = ended(agent)
    (error,) = errors
    assert isinstance(error, HotloopError)
    assert [each.why for each in error.trace.attempts] == ["first", "retry"]  # a third would come after the end
    assert trace.end_to_end_ms == 100 + 100 + 400 + 100 + 100


def test_its_requests_end_with_it():
    errors: list[Exception] = []
    inner = Agent(model="m", endpoint=ScriptedModel(["Yes."], ttft=9.0))
    agent, model = outer(asking(inner, errors), None, tool_timeout=0.5)
    ended(agent)
    assert contents(model.requests[-1], "tool") == ['{"error":"expert did not finish within 0.5 s."}']
    assert all(isinstance(error, ReplyTimeout | BudgetExceeded) for error in errors)


def test_it_goes_down_through_all_agents():
    deepest = helper([call("ask_left"), "Deep."], tools=[ask_left], ttft=0.1, instructions="deepest")
    middle = helper([call("expert"), "Middle."], tools=[asking(deepest)])
    agent, _ = outer(asking(middle), Budget(total=1.0, answer_reserve=0.3))
    ended(agent)
    assert left == [pytest.approx(0.6 - 0.1 - 0.01 - 0.1 - 0.02, abs=0.02)]


def test_one_that_nobody_waits_for_has_its_own_time():
    done: list[str] = []

    async def main() -> Any:
        inner = helper([call("look", key="a", ms=3000), "Written down."])
        tasks: list[asyncio.Task[Any]] = []

        @tool
        async def note() -> str:
            tasks.append(asyncio.create_task(inner.run("go", background=True)))
            return "will do"

        agent, _ = outer(note, Budget(total=1.0, answer_reserve=0.3))
        await agent.run("go")
        done.append((await tasks[0]).output)

    run_virtual(main())
    assert done == ["Written down."]


def test_a_session_of_it_too():
    async def main() -> Any:
        inner = helper(
            [call("look", key="a", ms=9000), "As far as I know."],
            Budget(total=60, answer_reserve=0.15),
            sessions=":memory:",
        )

        @tool
        async def expert() -> str:
            return (await inner.session("ann").run("go")).output

        agent, model = outer(expert, Budget(total=1.0, answer_reserve=0.3))
        await agent.run("go")
        history = await inner.session("ann").history()
        return contents(model.requests[-1], "tool"), len(history)

    assert run_virtual(main()) == (["As far as I know."], 4)


def test_a_stream_of_it_too():
    async def main() -> Any:
        inner = helper([call("look", key="a", ms=9000), "As far as I know."], Budget(total=60, answer_reserve=0.15))

        @tool
        async def expert() -> str:
            return [event async for event in inner.stream("go")][-1].result.output

        agent, model = outer(expert, Budget(total=1.0, answer_reserve=0.3))
        await agent.run("go")
        return contents(model.requests[-1], "tool")

    assert run_virtual(main()) == ["As far as I know."]


def test_in_a_thread_where_nobody_can_stop_it_it_ends_by_itself():
    ends: list[tuple[Any, float]] = []
    over = threading.Event()

    @tool(timeout=0.2)
    def expert() -> str:
        begun = time.perf_counter()
        try:
            Agent(model="m", endpoint=ScriptedModel([call("look", key="a", ms=9000)]), tools=[look]).run_sync("go")
        except BudgetExceeded as error:
            ends.append((error.row, time.perf_counter() - begun))
        finally:
            over.set()
        return "done"

    agent, model = outer(expert, None)
    agent.run_sync("go")
    assert contents(model.requests[-1], "tool") == ['{"error":"expert did not finish within 0.2 s."}']
    assert over.wait(2)
    ((row, took),) = ends
    assert (row, took < 1) == ("caller", True)


def test_the_error_tells_whose_time_it_was():
    async def main() -> Any:
        errors: list[BudgetExceeded] = []

        @tool
        async def expert() -> str:
            async def alone() -> None:
                try:
                    await helper([call("look", key="a", ms=9000)]).run("go")
                except BudgetExceeded as error:
                    errors.append(error)

            await asyncio.shield(asyncio.create_task(alone()))
            return "done"

        agent, _ = outer(expert, None, tool_timeout=0.5)
        await agent.run("go")
        await asyncio.sleep(0.1)
        return errors

    (error,) = run_virtual(main())
    assert (error.row, error.limit, error.trace.end_to_end_ms) == ("caller", 0.5, 500)
    assert str(error) == "The run was stopped after 0.5 s, which was all the time that its caller had left."


async def test_a_call_of_an_mcp_server_waits_no_longer_than_the_tool(monkeypatch, tmp_path):
    from mcp import Client

    from hotloop.tools.mcp import MCPServer

    monkeypatch.setenv("HOTLOOP_CACHE", str(tmp_path))
    patience: list[float] = []
    call_tool = Client.call_tool

    async def noted(self: Client, name: str, arguments: Any, seconds: float, **options: Any) -> Any:
        patience.append(seconds)
        return await call_tool(self, name, arguments, seconds, **options)

    monkeypatch.setattr(Client, "call_tool", noted)
    shop = [sys.executable, str(Path(__file__).parent / "mcp_servers" / "shop.py")]
    async with MCPServer(shop, name="shop") as server:
        await server.tools()
        script = [call("shop_order_status", order_id="20250101"), "Yes."]
        agent = Agent(
            model="m", endpoint=ScriptedModel(script), tools=[server], budget=Budget(total=20, answer_reserve=5)
        )
        await agent.run("go")
    assert 10 < patience[0] < 15.2
