"""Calls of one reply: in parallel, in time, in order, and every failure told to the model in words it can act on."""

import asyncio
import json
import logging
import threading
from contextvars import ContextVar
from typing import NamedTuple

import pydantic
import pytest

from hotloop.budget import Budget, Deadline
from hotloop.context.conversation import Conversation
from hotloop.errors import ToolError
from hotloop.events import ToolFinished, ToolStarted, ToolStatus
from hotloop.lab.virtual import run_virtual
from hotloop.models.reply import Call
from hotloop.tools.defining.define import tool
from hotloop.tools.running.caller import Caller
from hotloop.tools.running.calls import ReplyCalls
from hotloop.tools.running.executor import Executor, ToolPolicy
from hotloop.tools.running.job import RunContext
from hotloop.tools.running.progress import report
from hotloop.tools.running.result import ToolResult
from hotloop.trace.ledger import Ledger
from hotloop.units import NS_PER_MS, clock
from slow_tools import look_up, runs, send


@pytest.fixture(autouse=True)
def _no_runs():
    runs.clear()


def flaky(failures: int, error: Exception | None = None, **options):
    """A tool that fails so often before it works."""

    async def work(key: str = "x") -> str:
        runs.append(key)
        if len(runs) <= failures:
            raise error or ConnectionError("the line is down")
        return "done"

    return tool(work, name="flaky", **options)


class Acted(NamedTuple):
    """What came of some calls, with events as (ms, event)."""

    results: list[ToolResult]
    events: list[tuple]
    ledger: Ledger
    ms: float

    @property
    def contents(self) -> list[str]:
        return [result.content for result in self.results]

    @property
    def errors(self) -> list[str]:
        return [json.loads(result.content)["error"] if result.failed else "" for result in self.results]

    def of(self, kind: type) -> list[tuple]:
        return [(at, event) for at, event in self.events if isinstance(event, kind)]


def batch_of(executor: Executor, calls: list[Call], ledger: Ledger, emit=lambda some: None, budget=None) -> ReplyCalls:
    """The calls of a complete reply, with the ids id0, id1, ..."""
    batch = executor.begin(RunContext(ledger, emit, Deadline(budget, ledger.start), Caller("test"), Conversation()))
    batch.complete(calls, [f"id{number}" for number in range(len(calls))])
    return batch


async def act(executor: Executor, calls: list[Call], budget: Budget | None = None) -> Acted:
    now = clock()
    start, events = now(), []
    ledger = Ledger(now, "test")

    def emit(some) -> None:
        events.extend(((now() - start) / NS_PER_MS, event) for event in some)

    results = await batch_of(executor, calls, ledger, emit, budget).run()
    return Acted(results, events, ledger, (now() - start) / NS_PER_MS)


def call(name: str, **arguments) -> Call:
    return Call(name, json.dumps(arguments))


def acted(calls: list[Call], *tools, budget: Budget | None = None, **policy) -> Acted:
    """`calls` run in virtual time."""

    async def main():
        return await act(Executor(tools or (look_up, send), ToolPolicy(**policy)), calls, budget)

    return run_virtual(main())


def lookups(*keys: str, ms: int = 300) -> list[Call]:
    return [call("look_up", key=key, ms=ms) for key in keys]


# Time and order


@pytest.mark.parametrize(("places", "ms"), [(8, 300), (3, 300), (2, 600), (1, 900)])
def test_three_tools_take_as_long_as_there_are_places(places, ms):
    done = acted(lookups("a", "b", "c"), max_parallel=places)
    assert done.ms == ms
    assert done.contents == ["a found", "b found", "c found"]


def test_results_come_in_call_order_and_events_as_they_happen():
    done = acted([call("look_up", key=key, ms=ms) for key, ms in (("slow", 300), ("fast", 100), ("middle", 200))])
    assert done.contents == ["slow found", "fast found", "middle found"]
    assert [(at, event.call_id) for at, event in done.of(ToolStarted)] == [(0, "id0"), (0, "id1"), (0, "id2")]
    finished = [(at, event.call_id, event.ms) for at, event in done.of(ToolFinished)]
    assert finished == [(100, "id1", 100), (200, "id2", 200), (300, "id0", 300)]


def test_a_place_is_given_in_call_order_and_started_tells_it():
    done = acted(lookups("a", "b", "c", "d"), max_parallel=2)
    assert runs == ["a", "b", "c", "d"]
    assert [at for at, _ in done.of(ToolStarted)] == [0, 0, 300, 300]


def test_waiting_for_a_place_has_an_owner():
    done = acted(lookups("a", "b", "c"), max_parallel=1)
    waits = [(stage.lane, stage.end - stage.start) for stage in done.ledger.stages if stage.kind == "wait"]
    assert waits == [(2, 300 * NS_PER_MS), (3, 600 * NS_PER_MS)]


def test_one_call_needs_no_other_task():
    async def main():
        executor = Executor([look_up], ToolPolicy())
        tasks = []
        asyncio.get_running_loop().call_later(0.1, lambda: tasks.extend(asyncio.all_tasks()))
        await act(executor, lookups("a"))
        return len(tasks)

    assert run_virtual(main()) == 1


# Status


def test_the_status_text_is_told_when_the_tool_starts():
    async def work(order_id: str) -> str:
        return order_id

    made = tool(work, name="find", status="Looking up order {order_id}")
    done = acted([call("find", order_id="20250101")], made)
    ((_, started),) = done.of(ToolStarted)
    assert started == ToolStarted("id0", "find", '{"order_id": "20250101"}', "Looking up order 20250101")


def test_reports_of_async_and_plain_tools_come_between_start_and_end():
    async def pages() -> str:
        for page in (1, 2):
            await asyncio.sleep(0.1)
            report(f"page {page}")
        return "read"

    def rows() -> str:
        report("row 1")
        report("row 2")
        return "read"

    done = acted([call("pages"), call("rows")], tool(pages), tool(rows))
    by_call = {
        call_id: [getattr(event, "status", "end") for _, event in done.events if event.call_id == call_id]
        for call_id in ("id0", "id1")
    }
    assert by_call == {"id0": ["", "page 1", "page 2", "end"], "id1": ["", "row 1", "row 2", "end"]}
    assert [at for at, event in done.of(ToolStatus) if event.name == "pages"] == [100, 200]


def test_a_tool_that_was_given_up_reports_no_more():
    release = threading.Event()
    reported = threading.Event()

    def stuck() -> str:
        release.wait(10)
        report("still here")
        reported.set()
        return "late"

    async def main():
        done = await act(Executor([tool(stuck, timeout=0.05)], ToolPolicy()), [call("stuck")])
        release.set()
        await asyncio.to_thread(reported.wait, 10)
        await asyncio.sleep(0.01)
        return [type(event).__name__ for _, event in done.events]

    assert asyncio.run(main()) == ["ToolStarted", "ToolFinished"]


# What the model is told


def test_an_unknown_tool_is_answered_with_what_was_meant_and_what_there_is():
    (error,) = acted([call("lookup", key="a")]).errors
    assert error == "There is no tool lookup; did you mean look_up? The tools are: look_up, send."


def test_an_unknown_tool_of_an_agent_without_tools():
    async def main():
        return await act(Executor([], ToolPolicy()), [call("anything")])

    assert run_virtual(main()).errors == ["There is no tool anything. The tools are: none."]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ('{"key": 7}', "Expected `str`, got `int` - at `$.key`"),
        ("{}", "missing required field `key`"),
        ('{"key": "a", "mss": 1}', "unknown field `mss`"),
        ('{"key": "a"', "truncated"),
        ('["a"]', "Expected `object`, got `array`"),
        ("not json", "malformed"),
    ],
)
def test_wrong_arguments_are_not_run_and_the_model_gets_reason_and_schema(arguments, reason):
    done = acted([Call("look_up", arguments, whole=False)])
    assert runs == []
    assert reason in done.errors[0]
    assert '"required":["key"]' in done.errors[0]
    assert [event.outcome for _, event in done.of(ToolFinished)] == ["error"]
    assert done.of(ToolStarted) == []


def test_an_exception_is_told_and_logged(caplog):
    done = acted([call("flaky")], flaky(9))
    assert done.errors == ["flaky failed: ConnectionError: the line is down"]
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("hotloop.tools", logging.WARNING)
    assert record.exc_info is not None


def test_a_tool_error_is_told_in_its_own_words_and_not_logged(caplog):
    done = acted([call("flaky")], flaky(9, ToolError("There is no order x.")))
    assert done.errors == ["There is no order x."]
    assert caplog.records == []


@pytest.mark.parametrize(
    "error",
    [ToolError(), ToolError(""), ValueError(), ValueError("caf\udce9.txt"), ToolError("caf\udce9"), StopIteration(3)],
)
@pytest.mark.parametrize("is_async", [True, False])
def test_every_exception_is_a_failure_that_the_model_can_read(error, is_async):
    async def work() -> str:
        raise error

    def plain() -> str:
        raise error

    done = acted([call("it")], tool(work if is_async else plain, name="it"))
    assert done.results[0].failed
    assert len(done.errors[0]) > len("it")
    assert done.of(ToolFinished)[0][1].outcome == "error"


def test_an_error_that_cannot_even_be_shown_is_a_failure_too():
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    done = acted([call("flaky")], flaky(9, Broken()))
    assert "Broken" in done.errors[0]


def test_a_result_without_json_form_is_a_failure():
    async def work() -> object:
        return object()

    (error,) = acted([call("it")], tool(work, name="it")).errors
    assert error.startswith("The tool's result has no JSON form")


def test_one_failure_leaves_the_others_alone():
    done = acted([*lookups("a"), call("flaky"), call("nothing"), *lookups("b")], look_up, flaky(9))
    assert [bool(result.failed) for result in done.results] == [False, True, True, False]
    assert done.ms == 300


def test_a_tool_that_is_cancelled_from_inside_has_failed():
    async def work() -> str:
        raise asyncio.CancelledError

    (error,) = acted([call("it")], tool(work, name="it")).errors
    assert error == "it was cancelled from inside."


def test_a_tool_is_cancelled_from_inside_while_the_caller_handles_a_cancellation():
    async def work() -> str:
        raise asyncio.CancelledError

    async def main():
        async def cleaning_up():
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                return await act(Executor([tool(work, name="it")], ToolPolicy()), [call("it")])

        task = asyncio.create_task(cleaning_up())
        await asyncio.sleep(0.1)
        task.cancel()
        return await task

    assert run_virtual(main()).errors == ["it was cancelled from inside."]


# Timeouts


def test_an_async_tool_is_stopped_at_its_timeout():
    stopped = []

    async def slow() -> str:
        try:
            await asyncio.sleep(10)
        finally:
            stopped.append(True)
        return "late"

    done = acted([call("slow")], tool(slow, timeout=0.4))
    assert (done.ms, done.errors, stopped) == (400, ["slow did not finish within 0.4 s."], [True])


def test_the_agents_timeout_holds_where_the_tool_has_none():
    done = acted([call("look_up", key="a", ms=5000)], timeout=0.25)
    assert (done.ms, done.errors) == (250, ["look_up did not finish within 0.25 s."])


def test_a_tools_own_timeout_error_is_told_as_it_is():
    done = acted([call("flaky")], flaky(9, TimeoutError("the database")))
    assert done.errors == ["flaky failed: TimeoutError: the database"]


def test_a_plain_function_is_given_up_at_its_timeout():
    release = threading.Event()

    def stuck() -> str:
        release.wait(10)
        return "late"

    async def main():
        return await act(Executor([tool(stuck, timeout=0.05)], ToolPolicy()), [call("stuck")])

    try:
        done = asyncio.run(main())
    finally:
        release.set()
    assert done.errors == ["stuck did not finish within 0.05 s."]
    assert 50 <= done.ms < 1000


def test_a_tool_that_swallows_its_timeout_once_may_still_answer():
    async def work() -> str:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            return "what there was by then"
        return "all"

    assert acted([call("it")], tool(work, name="it", timeout=0.1)).contents == ["what there was by then"]


# The budget


def test_tools_are_stopped_when_only_the_answer_reserve_is_left():
    done = acted(lookups("a", ms=5000), budget=Budget(total=1.0, answer_reserve=0.3))
    assert (done.ms, done.errors) == (700, ["look_up did not finish within 0.7 s."])


def test_a_tool_is_not_started_when_no_time_is_left_for_it():
    """It could only begin its effects and then be told to have failed."""
    plain_runs = []

    def charge() -> str:
        plain_runs.append(True)
        return "charged"

    calls = [*lookups("a", "b", ms=200), call("send", key="c", ms=0), call("charge")]
    budget = Budget(total=0.5, answer_reserve=0.2)
    done = acted(calls, look_up, send, tool(charge), max_parallel=1, budget=budget)
    assert (done.ms, runs, plain_runs) == (300, ["a", "b"], [])
    assert done.errors == [
        "",
        "look_up did not finish within 0.1 s.",
        "send was not started: there is only time left to answer.",
        "charge was not started: there is only time left to answer.",
    ]
    assert [event.name for _, event in done.of(ToolStarted)] == ["look_up", "look_up"]


# Retries


def test_read_only_tools_are_tried_again_after_growing_delays():
    done = acted([call("flaky")], flaky(3, read_only=True), retry=3)
    assert (done.contents, len(runs), done.ms) == (["done"], 4, 700)
    assert [len(done.of(kind)) for kind in (ToolStarted, ToolFinished)] == [1, 1]


def test_the_tools_own_retries_come_before_the_agents():
    assert acted([call("flaky")], flaky(9, idempotent=True, retry=1), retry=5).ms == 100
    assert len(runs) == 2


def test_a_tool_with_effects_runs_once_whatever_the_agent_says():
    done = acted([call("flaky")], flaky(1), retry=3)
    assert (done.ms, len(runs)) == (0, 1)
    assert done.results[0].failed


def test_no_retry_begins_in_the_answer_reserve():
    done = acted([call("flaky")], flaky(9, read_only=True), retry=5, budget=Budget(total=0.5, answer_reserve=0.15))
    assert (len(runs), done.ms) == (3, 300)


def test_a_tool_that_says_why_it_cannot_is_not_asked_again():
    done = acted([call("flaky")], flaky(1, ToolError("There is no order x."), read_only=True), retry=3)
    assert (done.errors, len(runs), done.ms) == (["There is no order x."], 1, 0)


def test_a_tool_error_may_say_that_it_will_pass():
    error = ToolError("Try again.", retryable=True)
    done = acted([call("flaky")], flaky(1, error, read_only=True), retry=3)
    assert (done.contents, done.ms) == (["done"], 100)


def test_each_attempt_has_its_own_timeout():
    async def work() -> str:
        runs.append("x")
        await asyncio.sleep(10 if len(runs) == 1 else 0.2)
        return "done"

    done = acted([call("it")], tool(work, name="it", read_only=True, timeout=0.3, retry=1))
    assert (done.contents, done.ms) == (["done"], 600)


# The same call more than once


def test_identical_read_only_calls_in_one_reply_run_once():
    done = acted([call("look_up", key="a", ms=300), Call("look_up", '{"ms":300,"key":"a"}'), *lookups("b", "a")])
    assert sorted(runs) == ["a", "b"]
    assert done.contents == ["a found", "a found", "b found", "a found"]
    outcomes = {event.call_id: event.outcome for _, event in done.of(ToolFinished)}
    assert outcomes == {"id0": "ok", "id1": "joined", "id2": "ok", "id3": "joined"}
    assert done.ms == 300


def test_identical_calls_with_effects_all_run():
    acted([call("send", key="a"), call("send", key="a")])
    assert runs == ["a", "a"]


def test_a_call_that_joins_a_failed_one_has_failed_too():
    done = acted([call("flaky"), call("flaky")], flaky(1, read_only=True))
    assert len(runs) == 1
    assert [result.failed for result in done.results] == ["flaky failed: ConnectionError: the line is down"] * 2
    assert [event.outcome for _, event in done.of(ToolFinished)] == ["error", "error"]


def test_arguments_that_msgspec_cannot_write_are_still_compared():
    class Order(pydantic.BaseModel):
        number: str

    async def find(order: Order) -> str:
        runs.append(order.number)
        return order.number

    done = acted([call("find", order={"number": "7"})] * 2, tool(find, read_only=True, ttl=1.0))
    assert (done.contents, runs) == (["7", "7"], ["7"])


# The cache


def later(*steps, **policy):
    """Each step (seconds to wait, calls) on one executor; the outcomes of each."""

    async def main():
        executor = Executor([look_up, send, flaky(1, read_only=True)], ToolPolicy(**policy))
        seen = []
        for seconds, calls in steps:
            await asyncio.sleep(seconds)
            done = await act(executor, calls)
            seen.append([(event.outcome, event.content) for _, event in done.of(ToolFinished)])
        return seen

    return run_virtual(main())


def test_results_are_kept_for_their_time_and_no_longer():
    once = lookups("a", ms=0)
    seen = later((0, once), (0.9, once), (0.099, once), (0.001, once), (0.5, once), ttl=1.0)
    assert [outcome for ((outcome, _),) in seen] == ["ok", "cached", "cached", "ok", "cached"]
    assert runs == ["a", "a"]


def test_results_of_tools_with_effects_are_not_kept():
    once = [call("send", key="a", ms=0)]
    assert later((0, once), (0, once), ttl=60.0) == [[("ok", "a sent")]] * 2


def test_failures_are_not_kept():
    once = [call("flaky")]
    assert [outcome for ((outcome, _),) in later((0, once), (0, once), (0, once), ttl=60.0)] == [
        "error",
        "ok",
        "cached",
    ]


def test_without_a_ttl_nothing_is_kept():
    later((0, lookups("a")), (0, lookups("a")))
    assert runs == ["a", "a"]


# Plain functions


def test_plain_functions_run_in_threads_with_the_callers_context():
    user: ContextVar[str] = ContextVar("user", default="nobody")

    def whoami() -> list:
        return [user.get(), threading.current_thread() is threading.main_thread()]

    async def main():
        user.set("ann")
        return await act(Executor([tool(whoami)], ToolPolicy()), [call("whoami")])

    assert run_virtual(main()).contents == ['["ann",false]']


def test_no_more_plain_functions_run_at_once_than_there_are_places():
    lock, meet = threading.Lock(), threading.Barrier(3)
    now = most = 0

    def work(key: int) -> int:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        meet.wait(10)
        with lock:
            now -= 1
        return key

    done = acted([call("work", key=key) for key in range(9)], tool(work), max_parallel=3)
    assert done.contents == [str(key) for key in range(9)]
    assert most == 3


def test_a_plain_function_may_return_a_coroutine():
    def it(key: str):
        return look_up(key)

    done = acted([call("it", key="a")], tool(it))
    assert (done.contents, done.ms) == (["a found"], 300)


# Stopping


async def cancelled_after(seconds: float, calls: list[Call], *tools, **policy):
    """The executor's task, cancelled and given 100 ms; and all that is still there."""
    task = asyncio.create_task(act(Executor(tools, ToolPolicy(**policy)), calls))
    await asyncio.sleep(seconds)
    task.cancel()
    await asyncio.wait({task}, timeout=0.1)
    return task, asyncio.all_tasks() - {asyncio.current_task()}


def stubborn(swallows: int, then: str = "return"):
    """A tool that goes on for so many cancellations."""

    async def work(key: str) -> str:
        for _ in range(swallows):
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                runs.append(key)
        if then == "raise":
            raise ValueError("I was disturbed")
        if then == "wait":
            await asyncio.sleep(10)
        return "done"

    return tool(work, name="stubborn", read_only=True)


@pytest.mark.parametrize("places", [1, 2, 8])
def test_cancelling_stops_every_tool(places):
    async def main():
        task, left = await cancelled_after(0.1, lookups("a", "b", "c"), look_up, max_parallel=places)
        return task.cancelled(), left

    assert run_virtual(main()) == (True, set())


@pytest.mark.parametrize("then", ["return", "raise"])
@pytest.mark.parametrize("calls", [1, 3])
def test_a_tool_that_swallows_its_cancellation_does_not_save_the_run(then, calls):
    async def main():
        some = [call("stubborn", key=str(number)) for number in range(calls)]
        task, left = await cancelled_after(0.1, some, stubborn(1, then))
        return task.cancelled(), left

    assert run_virtual(main()) == (True, set())


def test_a_tool_beside_others_that_goes_on_is_cancelled_again():
    async def main():
        some = [*lookups("a"), call("stubborn", key="b"), call("stubborn", key="c")]
        task, left = await cancelled_after(0.1, some, look_up, stubborn(1, "wait"))
        return task.cancelled(), left

    assert run_virtual(main()) == (True, set())


def test_cleaning_up_after_a_cancellation_has_a_little_time():
    cleaned = []

    async def work(key: str) -> str:
        try:
            await asyncio.sleep(10)
        finally:
            await asyncio.sleep(0.04)
            cleaned.append(key)
        return "done"

    async def main():
        some = [call("work", key="a"), call("work", key="b")]
        task, left = await cancelled_after(0.1, some, tool(work))
        return task.cancelled(), left, sorted(cleaned)

    assert run_virtual(main()) == (True, set(), ["a", "b"])


def test_the_time_of_a_tool_that_was_cancelled_is_its_own():
    async def main():
        ledger = Ledger(clock(), "test")
        batch = batch_of(Executor([look_up], ToolPolicy()), lookups("a", "b"), ledger)
        task = asyncio.create_task(batch.run())
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.wait({task})
        return [(stage.kind, stage.end - stage.start, stage.note) for stage in ledger.stages if stage.kind == "tool"]

    assert run_virtual(main()) == [("tool", 100 * NS_PER_MS, "cancelled")] * 2
