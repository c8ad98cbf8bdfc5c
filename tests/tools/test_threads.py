"""Threads for plain functions: bounded, made once, and never in the way of the end of the process."""

import asyncio
import subprocess
import sys
import threading
import time

import pytest

from hotloop import Agent, tool
from hotloop.testing import ScriptedModel, call
from hotloop.tools.running.threads import DaemonPool, pool

HANGING = """
import asyncio, threading
from hotloop import Agent, tool
from hotloop.testing import ScriptedModel, call

@tool(timeout=0.05)
def hang() -> str:
    "Never returns."
    threading.Event().wait()

agent = Agent(model="m", endpoint=ScriptedModel([call("hang"), "It hangs."]), tools=[hang])
print(%s)
"""


def names(futures) -> set[str]:
    return {future.result(10) for future in futures}


def this_thread() -> str:
    return threading.current_thread().name


def test_a_job_gives_its_result_or_its_error():
    threads = DaemonPool(2)
    assert threads.submit(divmod, 7, 2).result(10) == (3, 1)
    assert threads.submit(int, "11", base=2).result(10) == 3
    with pytest.raises(ZeroDivisionError):
        threads.submit(divmod, 1, 0).result(10)
    with pytest.raises(SystemExit):
        threads.submit(sys.exit).result(10)
    assert threads.submit(this_thread).result(10).startswith("hotloop-tool-")


def test_threads_are_started_only_as_they_are_needed():
    threads = DaemonPool(8)
    seen = set()
    for _ in range(50):
        seen |= names([threads.submit(this_thread)])
        time.sleep(0)  # lets the thread say that it is idle
    assert len(seen) <= 2


def test_there_are_never_more_threads_than_the_size():
    threads, meet = DaemonPool(3), threading.Barrier(3)

    def together() -> str:
        meet.wait(10)
        return this_thread()

    assert len(names([threads.submit(together) for _ in range(30)])) == 3


def test_a_job_that_was_cancelled_before_its_turn_never_runs():
    threads, release, ran = DaemonPool(1), threading.Event(), []
    first = threads.submit(release.wait, 10)
    second = threads.submit(ran.append, 1)
    assert second.cancel()
    release.set()
    assert first.result(10)
    threads.submit(int).result(10)
    assert ran == []


def test_the_pool_of_a_size_is_made_once():
    assert pool(5) is pool(5)
    assert pool(5) is not pool(6)


def test_a_tool_that_runs_an_agent_does_not_wait_for_the_thread_it_holds():
    """The outer calls hold every thread of their pool, and all wait for plain functions of agents with such a pool."""

    @tool
    def leaf() -> str:
        return "leaf"

    @tool(timeout=20)
    def branch(number: int) -> str:
        inner = Agent(model="m", endpoint=ScriptedModel([call("leaf"), f"{number}"]), tools=[leaf], max_parallel=2)
        return inner.run_sync("go").output

    async def main():
        calls = [call("branch", number=number) for number in range(2)]
        agent = Agent(model="m", endpoint=ScriptedModel([calls, "done"]), tools=[branch], max_parallel=2)
        return [event async for event in agent.stream("go") if type(event).__name__ == "ToolFinished"]

    assert [event.content for event in sorted(asyncio.run(main()), key=lambda event: event.call_id)] == ["0", "1"]


@pytest.mark.parametrize("run", ["agent.run_sync('go').output", "asyncio.run(agent.run('go')).output"])
def test_a_plain_function_that_hangs_does_not_keep_the_process_from_ending(run):
    done = subprocess.run([sys.executable, "-c", HANGING % run], capture_output=True, text=True, timeout=20)
    assert (done.stdout, done.stderr, done.returncode) == ("It hangs.\n", "", 0)
