"""`report` tells the caller of a run where a tool is, `caller` the tool for whom it works, wherever it works."""

import asyncio
import threading

from hotloop import Agent, caller, report, tool
from hotloop.events import ToolStatus
from hotloop.testing import ScriptedModel, call, run_virtual
from timed_tools import results_of


async def statuses(*tools, calls) -> list[tuple[str, str, str]]:
    agent = Agent(model="m", endpoint=ScriptedModel([calls, "done"]), tools=tools)
    return [
        (event.call_id, event.name, event.status) async for event in agent.stream("go") if isinstance(event, ToolStatus)
    ]


def test_outside_a_run_it_does_nothing():
    report("nobody listens")


def test_the_tool_and_the_call_are_named():
    async def read(page: int) -> str:
        await asyncio.sleep(page / 10)
        report(f"page {page}")
        return ""

    seen = run_virtual(statuses(tool(read), calls=[call("read", page=2), call("read", page=1)]))
    assert seen == [("call00002", "read", "page 1"), ("call00001", "read", "page 2")]


def test_it_works_in_tasks_threads_and_helpers_of_a_tool():
    def helper(text: str) -> None:
        report(text)

    async def work() -> str:
        helper("helper")
        await asyncio.create_task(asyncio.to_thread(helper, "thread"))
        return ""

    def plain() -> str:
        helper("plain")
        return ""

    seen = run_virtual(statuses(tool(work), tool(plain), calls=[call("work"), call("plain")]))
    assert sorted(status for _, _, status in seen) == ["helper", "plain", "thread"]


def test_an_agent_inside_a_tool_has_its_own_listeners():
    """The outer stream hears the outer tool, also after the inner run; the inner tool speaks to the inner run."""

    async def inner() -> str:
        report("inner")
        return ""

    async def outer() -> str:
        report("before")
        agent = Agent(model="m", endpoint=ScriptedModel([call("inner"), "done"]), tools=[inner])
        await agent.run("go")
        report("after")
        return ""

    seen = run_virtual(statuses(tool(outer), calls=call("outer")))
    assert [status for _, _, status in seen] == ["before", "after"]


def test_a_thread_that_outlives_its_run_and_loop_reports_to_nobody():
    release, ended = threading.Event(), threading.Event()
    faults = []

    def stuck() -> str:
        release.wait(10)
        try:
            report("too late")
        except Exception as fault:
            faults.append(fault)
        ended.set()
        return ""

    assert asyncio.run(statuses(tool(stuck, timeout=0.05), calls=call("stuck"))) == []
    release.set()
    assert ended.wait(10)
    assert faults == []


def test_a_tool_knows_for_whom_it_works():
    async def work() -> str:
        return f"{caller().user} {caller().agent}"

    def plain() -> list[str]:
        return [caller().run, *sorted(caller().grants)]

    model = ScriptedModel([[call("work"), call("plain")], "done"])
    agent = Agent(model="m", endpoint=model, tools=[work, plain], name="clerk", grants=["read"])
    run_virtual(agent.run("go", user="ann", trace_id="r1"))
    assert results_of(model.requests[-1]) == ["ann clerk", '["r1","read"]']


def test_outside_a_run_nobody_is_the_caller():
    assert (caller().run, caller().user, caller().session, caller().grants) == ("", "", "", frozenset())
