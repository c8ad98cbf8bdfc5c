"""Who shares results and executions with whom, for how long, and what happens when one of them leaves."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from hotloop import Agent, Budget, tool
from hotloop.lab.script import per_conversation
from hotloop.testing import call, run_virtual
from hotloop.units import NS_PER_MS
from timed_tools import Notes, agent_of, error_of, now_ms, results_of

ASK = [call("look", key="a"), "ok"]


@pytest.fixture
def notes() -> Notes:
    return Notes()


def agents(notes: Notes, count: int = 2, *, ms: float = 300, **options: Any) -> list[Agent]:
    """Agents with the same tool `look`, each good for a few runs."""
    look = notes.tool("look", ms, read_only=True, **{"scope": "global"} | options)
    return [agent_of(per_conversation(ASK), look) for _ in range(count)]


def contents(agent: Agent) -> list[str]:
    """The results that the agent's model read last."""
    return results_of(agent._backends.all[0].transport.requests[-1])


async def after(ms: float, work: Any) -> Any:
    await asyncio.sleep(ms / 1000)
    return await work


def outcomes(*results: Any) -> list[str]:
    return [result.trace.turns[0].calls[0].outcome for result in results]


# Kept results


RUNS = {
    "same run": lambda one, other: [one.run("go", trace_id="r1"), one.run("go", trace_id="r1")],
    "same session": lambda one, other: [one.session("s").run("go"), one.session("s").run("go")],
    "same user": lambda one, other: [one.run("go", user="ann"), one.run("go", user="ann")],
    "same agent": lambda one, other: [one.run("go"), one.run("go")],
    "other session": lambda one, other: [one.session("s").run("go"), one.session("t").run("go")],
    "other user": lambda one, other: [one.run("go", user="ann"), one.run("go", user="bob")],
    "same user of another agent": lambda one, other: [one.run("go", user="ann"), other.run("go", user="ann")],
    "another agent": lambda one, other: [one.run("go"), other.run("go")],
}


@pytest.mark.parametrize(
    ("scope", "sharing"),
    [
        ("run", ["same run"]),
        ("session", ["same run", "same session"]),
        ("user", ["same run", "same user", "same user of another agent"]),
        (None, [name for name in RUNS if "another" not in name]),
        ("global", list(RUNS)),
    ],
)
def test_results_are_kept_for_those_of_the_same_scope_and_nobody_else(scope, sharing):
    async def main(runs):
        notes = Notes()
        for run in runs(*agents(notes, scope=scope, ttl=60)):
            await run
        return len(notes.begun)

    assert [name for name in RUNS if run_virtual(main(RUNS[name])) == 1] == sharing


def test_a_kept_result_takes_no_time_and_says_what_it_saved(notes):
    async def main():
        one, other = agents(notes, ttl=60)
        return [await one.run("go"), await other.run("go")]

    first, second = run_virtual(main())
    assert outcomes(first, second) == ["ok", "cached"]
    assert (first.trace.end_to_end_ms, second.trace.end_to_end_ms) == (300, 0)
    assert second.trace.turns[0].calls[0].saved == 300 * NS_PER_MS


def test_a_scope_without_a_ttl_keeps_nothing(notes):
    async def main():
        one, other = agents(notes)
        return outcomes(await one.run("go"), await other.run("go"))

    assert run_virtual(main()) == ["ok", "ok"]


def test_a_kept_result_outlives_the_event_loop_it_was_got_on(notes):
    one, other = agents(notes, ttl=60, ms=0)
    asyncio.run(one.run("go"))
    asyncio.run(other.run("go"))
    assert len(notes.begun) == 1


@pytest.mark.parametrize(
    ("options", "seen"),
    [
        ({"fails": 1}, ["error", "ok", "cached"]),
        ({"timeout": 0.1, "on_timeout": "unknown"}, ["fallback", "fallback", "fallback"]),
        ({"timeout": 0.1}, ["error", "error", "error"]),
    ],
)
def test_failures_and_what_stands_in_are_not_kept(notes, options, seen):
    async def main():
        (agent,) = agents(notes, 1, ttl=60, **options)
        return outcomes(*[await agent.run("go") for _ in seen])

    assert run_virtual(main()) == seen


def test_a_result_that_is_cut_for_one_is_whole_for_another():
    @tool(read_only=True, ttl=60, scope="global")
    async def look(key: str) -> str:
        return "word " * 100

    async def main():
        little, much = (agent_of(ASK, look, max_result=most) for most in (75, 250))
        await little.run("go")
        await much.run("go")
        return len(contents(little)[0]), len(contents(much)[0])

    little, much = run_virtual(main())
    assert little <= 300
    assert much == 500


# One execution for all who ask meanwhile


@pytest.mark.parametrize(
    ("options", "sharing"),
    [
        ({"scope": "run"}, []),
        ({"scope": None}, []),
        ({"scope": "run", "ttl": 60}, []),
        ({"scope": "user"}, ["same user", "same user of another agent"]),
        ({"scope": None, "ttl": 60}, ["same user", "same agent", "other session", "other user"]),
        ({"scope": "global"}, [name for name in RUNS if name not in ("same run", "same session")]),
    ],
)
def test_those_who_ask_meanwhile_share_one_execution_if_they_would_share_its_result(options, sharing):
    async def main(runs):
        notes = Notes()
        await asyncio.gather(*runs(*agents(notes, **options)))
        return len(notes.begun)

    names = [name for name in RUNS if name not in ("same run", "same session")]  # these wait, or are no two runs
    assert [name for name in names if run_virtual(main(RUNS[name])) == 1] == sharing


def test_who_joins_waits_for_the_rest_only(notes):
    async def main():
        one, other = agents(notes)
        return await asyncio.gather(one.run("go"), after(200, other.run("go")))

    first, second = run_virtual(main())
    assert outcomes(first, second) == ["ok", "joined"]
    assert (first.trace.end_to_end_ms, second.trace.end_to_end_ms) == (300, 100)
    assert second.trace.critical_ms() == {"wait": 100}
    assert notes.begun == [(0, "look a")]


def test_who_joins_a_failure_has_failed_too_and_the_next_one_tries_again(notes):
    async def main():
        one, other = agents(notes, fails=1)
        joined = await asyncio.gather(one.run("go"), other.run("go"))
        return outcomes(*joined, await one.run("go"))

    assert run_virtual(main()) == ["error", "error", "ok"]


def test_other_arguments_are_another_execution(notes):
    async def main():
        look = notes.tool("look", read_only=True, scope="global")
        script = [[call("look", key="a"), call("look", key="b")], "ok"]
        await asyncio.gather(*[agent_of(script, look).run("go") for _ in range(3)])
        return now_ms()

    assert run_virtual(main()) == 300
    assert notes.begun == [(0, "look a"), (0, "look b")]


# Leaving


async def cancelled(ms: float, run: Any) -> None:
    """Start this run and cancel it after a while."""
    task = asyncio.create_task(run)
    await asyncio.sleep(ms / 1000)
    task.cancel()
    await asyncio.wait({task})


@pytest.mark.parametrize("leaves", ["first", "second"])
def test_whoever_leaves_does_so_alone(notes, leaves):
    async def main():
        one, other = agents(notes)
        runs = [one.run("go"), after(10, other.run("go"))]
        goes, stays = runs if leaves == "first" else runs[::-1]
        _, result = await asyncio.gather(cancelled(100, goes), stays)
        return result.output, contents(other if leaves == "first" else one), now_ms(), len(asyncio.all_tasks())

    assert run_virtual(main()) == ("ok", ["a look"], 300, 1)
    assert notes.times() == {"look a": (0, 300)}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_last_to_leave_stops_it(notes, count):
    async def main():
        some = agents(notes, count, ttl=60)
        await asyncio.gather(*[cancelled(100 + at, agent.run("go")) for at, agent in enumerate(some)])
        left = len(asyncio.all_tasks())
        return left, outcomes(await some[0].run("go"))

    assert run_virtual(main()) == (1, ["ok"])
    assert notes.spans[0].end == 99 + count


@pytest.mark.parametrize("hurried", [0, 1])
def test_who_has_no_more_time_gives_up_alone(notes, hurried):
    async def main():
        look = notes.tool("look", read_only=True, scope="global")
        budgets = [Budget(total=0.2, answer_reserve=0.05) if at == hurried else None for at in range(2)]
        some = [agent_of(ASK, look, budget=budget) for budget in budgets]
        results = await asyncio.gather(*[agent.run("go") for agent in some])
        return [
            (error_of(contents(agent)[0]), result.trace.end_to_end_ms)
            for agent, result in zip(some, results, strict=True)
        ]

    told = run_virtual(main())
    assert told[hurried] == ("look did not finish within 0.15 s.", 150)
    assert told[1 - hurried] == ("", 300)
    assert notes.times() == {"look a": (0, 300)}


def slow_to_stop(seconds: float) -> Any:
    @tool(read_only=True, scope="global")
    async def look(key: str) -> str:
        """Look, and clean up behind it."""
        try:
            await asyncio.sleep(0.3)
        finally:
            await asyncio.sleep(seconds)
        return "found"

    return look


def test_who_asks_while_it_is_being_stopped_begins_anew():
    async def main():
        look = slow_to_stop(0.02)
        one, other = (agent_of(ASK, look) for _ in range(2))
        _, result = await asyncio.gather(cancelled(100, one.run("go")), after(110, other.run("go")))
        return result.output, contents(other)

    assert run_virtual(main()) == ("ok", ["found"])


@pytest.mark.parametrize("calls", [1, 2])
def test_an_execution_that_goes_on_is_cancelled_again_when_all_have_left(calls):
    @tool(read_only=True, ttl=60)
    async def look(key: str) -> str:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(10)
        await asyncio.sleep(10)
        return "found"

    async def main():
        agent = agent_of([[call("look", key=str(at)) for at in range(calls)], "ok"], look)
        task = asyncio.create_task(agent.run("go"))
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.sleep(0.1)
        return task.cancelled(), asyncio.all_tasks() - {asyncio.current_task()}

    assert run_virtual(main()) == (True, set())


def test_nobody_waits_longer_than_alone_because_another_has_no_free_place(notes):
    async def main():
        look, work = notes.tool("look", 100, read_only=True, scope="global"), notes.tool("work", 1000)
        busy = agent_of([[call("work"), call("look", key="a")], "ok"], look, work, max_parallel=1)
        free = agent_of(ASK, look)
        _, result = await asyncio.gather(busy.run("go"), after(10, free.run("go")))
        return result.trace.end_to_end_ms

    assert run_virtual(main()) == 100


def test_who_joins_is_not_bound_by_the_time_of_the_first(notes):
    async def main():
        look, work = notes.tool("look", 100, read_only=True, scope="global"), notes.tool("work", 1000)
        calls = [call("work"), call("look", key="a")]
        budget = Budget(total=0.8, answer_reserve=0.3)
        hurried, free = agent_of([calls, "ok"], look, work, max_parallel=1, budget=budget), agent_of(ASK, look)
        await asyncio.gather(hurried.run("go"), after(10, free.run("go")))
        return contents(free)

    assert run_virtual(main()) == ["a look"]


def test_who_joined_and_gave_up_saved_nothing(notes):
    async def main():
        look = notes.tool("look", read_only=True, scope="global")
        patient = agent_of(ASK, look)
        hurried = agent_of(ASK, look, budget=Budget(total=0.2, answer_reserve=0.05))
        _, result = await asyncio.gather(patient.run("go"), after(10, hurried.run("go")))
        return result.trace.turns[0].calls[0].saved

    assert run_virtual(main()) == 0


def test_a_run_that_has_ended_learns_no_more(notes):
    """It gives up two executions that others have joined; the second gets its one place when the first has ended."""

    async def main():
        look = notes.tool("look", 1000, read_only=True, scope="global")
        both = [call("look", key="a"), call("look", key="b")]
        hurried = agent_of([both, "ok"], look, max_parallel=1, budget=Budget(total=0.8, answer_reserve=0.3))
        others = [agent_of([each, "ok"], look) for each in both]
        runs = [after(10, other.run("go")) for other in others]
        result, *_ = await asyncio.gather(hurried.run("go"), *runs)
        return result.trace

    trace = run_virtual(main())
    assert trace.end_to_end_ms == 500
    assert [stage for stage in trace.stages if stage.end > trace.end] == []


# Writers


def shop(notes: Notes, *scripts: list, **options: Any) -> list[Agent]:
    """Agents that read orders, keeping what they read, and change them."""
    tools = (
        notes.tool("read", 100, read_only=True, ttl=60, reads=["order:{key}"], **options),
        notes.tool("write", 100, writes=["order:{key}"]),
        notes.tool("spoil", 100, invalidates=["order:{key}"]),
    )
    return [agent_of(script, *tools) for script in scripts]


READ, WRITE, SPOIL = (call(name, key="a") for name in ("read", "write", "spoil"))


@pytest.mark.parametrize("change", ["write", "spoil"])
def test_what_was_read_is_dropped_when_it_is_written_and_nothing_else(notes, change):
    both = [READ, call("read", key="b")]
    (agent,) = shop(notes, [both, call(change, key="a"), both, "ok"])
    result = run_virtual(agent.run("go"))
    assert [facts.outcome for facts in result.trace.turns[2].calls] == ["ok", "cached"]


def test_in_the_same_reply_already(notes):
    (agent,) = shop(notes, [READ, [READ, WRITE, READ], "ok"])
    result = run_virtual(agent.run("go"))
    assert [facts.outcome for facts in result.trace.turns[1].calls] == ["cached", "ok", "ok"]
    assert notes.begun == [(0, "read a"), (100, "write a"), (200, "read a")]


def test_what_a_call_makes_stale_is_not_given_to_the_calls_written_after_it(notes):
    (agent,) = shop(notes, [READ, [SPOIL, READ], "ok"])
    result = run_virtual(agent.run("go"))
    assert [facts.outcome for facts in result.trace.turns[1].calls] == ["ok", "ok"]


def test_a_writer_that_fails_drops_it_too(notes):
    """Nobody knows how far it came."""

    @tool(writes=["order:{key}"])
    async def write(key: str) -> None:
        raise ConnectionError("the line is down")

    read = notes.tool("read", 0, read_only=True, ttl=60, reads=["order:{key}"])
    run_virtual(agent_of([READ, WRITE, READ, "ok"], read, write).run("go"))
    assert len(notes.begun) == 2


@pytest.mark.parametrize("change", ["write", "spoil"])
def test_what_is_being_read_while_it_is_written_is_neither_kept_nor_joined(notes, change):
    """The first read goes on until 300, the change is done at 110; who asks then gets what is true now."""
    reader = notes.tool("read", 300, read_only=True, ttl=60, scope="global", reads=["order:{key}"])
    writer = notes.tool(change, 100, **{"writes" if change == "write" else "invalidates": ["order:{key}"]})
    runs = ((0, READ), (10, call(change, key="a")), (150, READ), (200, READ), (500, READ))

    async def main():
        some = [after(at, agent_of([what, "ok"], reader, writer).run("go")) for at, what in runs]
        return outcomes(*await asyncio.gather(*some))

    assert run_virtual(main()) == ["ok", "ok", "ok", "joined", "cached"]
    assert notes.begun == [(0, "read a"), (10, f"{change} a"), (150, "read a")]


@pytest.mark.parametrize(
    "scope",
    [
        "global",
        "user",
        None,
    ],
)
def test_a_writer_of_one_agent_drops_what_others_have_read(notes, scope):
    one, other = shop(notes, [READ, "ok", READ, "ok"], [WRITE, "ok"], scope=scope)

    async def main():
        await one.run("go", user="ann")
        await other.run("go", user="bob")
        await one.run("go", user="ann")

    run_virtual(main())
    assert [what for _, what in notes.begun] == ["read a", "write a", "read a"]
