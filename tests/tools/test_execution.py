"""One tool at work: its time, its attempts, and what stands in when its time is over."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hotloop import Budget, tool
from hotloop.errors import ToolError
from hotloop.events import ToolFinished
from hotloop.testing import call
from timed_tools import Notes, ran


@pytest.fixture
def notes() -> Notes:
    return Notes()


def slow(notes: Notes, **options: Any) -> Any:
    return notes.tool("slow", 1000, **{"read_only": True, "timeout": 0.1} | options)


@pytest.mark.parametrize(
    ("value", "content"),
    [("unknown", "unknown"), (None, "null"), ({"state": "unknown"}, '{"state":"unknown"}'), ([], "[]"), ("", "")],
)
def test_a_value_stands_in_when_the_time_is_over(notes, value, content):
    done = ran([call("slow"), "ok"], slow(notes, on_timeout=value))
    assert done.contents == [content]
    assert done.result.trace.end_to_end_ms == 100
    assert [facts.outcome for facts in done.calls] == ["fallback"]


def test_another_tool_stands_in_with_the_same_arguments(notes):
    other = notes.tool("other", 50, read_only=True)
    done = ran([call("slow", key="a"), "ok"], slow(notes, on_timeout=other))
    assert done.contents == ["a other"]
    assert notes.times() == {"slow a": (0, 100), "other a": (100, 150)}
    ((at, finished),) = done.of(ToolFinished)
    assert (at, finished.name, finished.outcome, finished.ms) == (150, "slow", "fallback", 150)


def test_without_anything_to_stand_in_the_model_is_told(notes):
    done = ran([call("slow"), "ok"], slow(notes))
    assert done.errors == ["slow did not finish within 0.1 s."]


def test_retries_come_first(notes):
    """Three attempts of 100 ms, with pauses of 100 and 200 ms."""
    done = ran([call("slow"), "ok"], slow(notes, retry=2, on_timeout="unknown"))
    assert [at for at, _ in notes.begun] == [0, 200, 500]
    assert (done.contents, done.result.trace.end_to_end_ms) == (["unknown"], 600)


def test_nothing_stands_in_for_a_tool_that_failed_in_time(notes):
    done = ran([call("slow"), "ok"], notes.tool("slow", 50, timeout=0.1, fails=1, on_timeout="unknown"))
    assert done.errors == ["slow is down."]


def test_nothing_stands_in_when_only_an_earlier_attempt_was_late(notes):
    times = iter([0.5, 0.01])

    @tool(read_only=True, timeout=0.1, retry=1, on_timeout="unknown")
    async def moody() -> str:
        """Late once, then in time, but without success."""
        await asyncio.sleep(next(times))
        raise ToolError("It is down.")

    assert ran([call("moody"), "ok"], moody).errors == ["It is down."]


def test_what_stands_in_may_be_late_too_and_have_something_that_stands_in(notes):
    other = notes.tool("other", 1000, read_only=True, timeout=0.2, on_timeout="unknown")
    done = ran([call("slow"), "ok"], slow(notes, on_timeout=other))
    assert (done.contents, done.result.trace.end_to_end_ms) == (["unknown"], 300)


def test_what_stands_in_takes_the_same_place(notes):
    other = notes.tool("other", 100, read_only=True)
    tools = slow(notes, on_timeout=other), notes.tool("look", 10)
    ran([[call("slow"), call("look")], "ok"], *tools, max_parallel=1)
    assert [what for _, what in notes.begun] == ["slow", "other", "look"]


def test_a_value_stands_in_when_the_runs_own_time_is_over(notes):
    budget = Budget(total=0.5, answer_reserve=0.2)
    done = ran([call("slow"), "ok"], slow(notes, timeout=5.0, on_timeout="unknown"), budget=budget)
    assert (done.contents, done.result.trace.end_to_end_ms) == (["unknown"], 300)


def test_no_tool_stands_in_when_no_time_is_left_for_it(notes):
    other, budget = notes.tool("other", 100), Budget(total=0.5, answer_reserve=0.2)
    ran([call("slow"), "ok"], slow(notes, timeout=5.0, read_only=False, on_timeout=other), budget=budget)
    assert [what for _, what in notes.begun] == ["slow"]


def test_all_arguments_that_a_schema_allows_can_be_told_apart():
    @tool(read_only=True, ttl=60)
    async def look(keys: set[int | str]) -> int:
        return len(keys)

    assert ran([call("look", keys=[1, "a"]), "ok"], look).contents == ["2"]


@pytest.mark.parametrize("is_async", [True, False])
def test_a_tool_that_ends_itself_does_not_end_the_agent(is_async):
    def plain() -> str:
        raise SystemExit(2)

    async def other() -> str:
        raise SystemExit(2)

    leaves = tool(other if is_async else plain, name="leaves")
    done = ran([call("leaves"), "It left."], leaves)
    assert "SystemExit: 2" in done.errors[0]
