"""The calls of one reply to the millisecond: begun while it is written, in the order they must have, or not at all."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from itertools import permutations
from typing import Any

import pytest

from hotloop import Agent, Budget, tool
from hotloop.errors import ConfigError, ModelError
from hotloop.events import Reset, ToolFinished, ToolStarted
from hotloop.lab.script import Call
from hotloop.testing import ScriptedModel, call, raw, run_virtual
from hotloop.units import NS_PER_MS
from timed_tools import Notes, Ran, agent_of, end, head, more, now_ms, ran

PACE = {"ttft": 0.05, "tpot": 0.01}
"""The first token after 50 ms, then one every 10 ms; the call `look(key="a")` has four, so it takes 40 ms."""


@pytest.fixture
def notes() -> Notes:
    return Notes()


def looks(*keys: str) -> list[Call]:
    return [call("look", key=key) for key in keys]


def head_starts(done: Ran) -> list[float]:
    return [facts.head_start / NS_PER_MS for facts in done.calls]


# Early starts


def test_a_call_starts_when_it_is_complete_though_the_model_writes_on(notes):
    done = ran([looks("a", "b", "c"), "ok"], notes.tool("look", read_only=True), **PACE)
    assert notes.begun == [(90, "look a"), (130, "look b"), (160, "look c")]
    assert head_starts(done) == [70, 30, 0]
    assert done.contents == ["a look", "b look", "c look"]
    assert done.result.trace.end_to_end_ms == 160 + 300 + 50
    assert not done.result.trace.turns[0].burst


def test_a_call_may_end_before_the_reply_does(notes):
    done = ran([looks("a", "b"), "ok"], notes.tool("look", 20, read_only=True), **PACE)
    assert notes.times() == {"look a": (90, 110), "look b": (120, 140)}
    assert [(at, event.content) for at, event in done.of(ToolFinished)] == [(110, "a look"), (140, "b look")]
    assert head_starts(done) == [30, 0]


@pytest.mark.parametrize("options", [{"tpot": 0.0}, {"tpot": 0.01, "stream": False}])
def test_where_calls_come_in_one_burst_none_can_start_early(notes, options):
    done = ran([looks("a", "b"), "ok"], notes.tool("look", read_only=True), ttft=0.05, **options)
    assert done.result.trace.turns[0].burst
    assert head_starts(done) == [0, 0]


@pytest.mark.parametrize(
    ("options", "key", "start"),
    [
        ({"read_only": True}, "a", 130),
        ({"read_only": True, "ttl": 60}, "a", 130),
        ({"read_only": True, "scope": "global"}, "a", 130),
        ({"read_only": True, "requires": ["reading"]}, "a", 130),
        ({"read_only": True, "reads": ["order:{key}"]}, "b", 130),
        ({"read_only": True, "reads": ["order:{key}"]}, "a", 140),  # the call before writes it
        ({"read_only": True, "sequential": True}, "a", 140),
        ({"read_only": True, "after": ["last"]}, "a", 440),
        ({"read_only": True, "approval": lambda arguments: False}, "a", 140),
        ({"idempotent": True}, "a", 140),
        ({}, "a", 140),
    ],
)
def test_only_what_changes_nothing_and_waits_for_nothing_starts_early(notes, options, key, start):
    tools = notes.tool("first", 0, writes=["order:{key}"]), notes.tool("it", **options), notes.tool("last")
    ran([[call("first", key="a"), call("it", key=key), call("last")], "ok"], *tools, grants=["reading"], **PACE)
    assert (start, f"it {key}") in notes.begun


def test_calls_that_cannot_run_keep_no_other_from_starting_early(notes):
    calls = [call("nothing", key="a"), call("look", kay="a"), *looks("a"), call("nothing")]
    done = ran([calls, "ok"], notes.tool("look", read_only=True), **PACE)
    assert notes.begun == [(170, "look a")]
    assert [bool(error) for error in done.errors] == [True, True, False, True]


def test_a_barrier_holds_back_what_was_written_after_it(notes):
    tools = notes.tool("alone", 100, read_only=True, sequential=True), notes.tool("look", read_only=True)
    ran([[*looks("a"), call("alone"), *looks("b"), call("alone")], "ok"], *tools, **PACE)
    assert notes.begun == [(90, "look a"), (390, "alone"), (490, "look b"), (790, "alone")]


def test_no_more_run_at_once_than_may_however_early_they_start(notes):
    ran([looks("a", "b", "c"), "ok"], notes.tool("look", read_only=True), max_parallel=1, **PACE)
    assert notes.begun == [(90, "look a"), (390, "look b"), (690, "look c")]


def test_the_same_call_again_joins_the_one_that_started_early(notes):
    done = ran([looks("a", "b", "a"), "ok"], notes.tool("look", read_only=True), **PACE)
    assert notes.begun == [(90, "look a"), (130, "look b")]
    assert [facts.outcome for facts in done.calls] == ["ok", "ok", "joined"]
    assert done.calls[2].saved == 300 * NS_PER_MS


# Replies that end unsafe


TWO = head(0, "look", '{"key":"a"}'), head(1, "look", '{"key":"b"}')
PAUSE = b": thinking\n\n"
UNSAFE = {
    "length": raw(*TWO, end("length")),
    "filter": raw(*TWO, end("content_filter")),
    "broken": raw(*TWO, PAUSE, cut=True),
    "silent": raw(*TWO, PAUSE),
    "error": raw(*TWO, b'data: {"error":{"message":"out of memory","code":500}}\n\n'),
    "changed": raw(*TWO, more(0, '{"key":"z"}'), end()),
}


@pytest.mark.parametrize("how", UNSAFE)
def test_what_ran_early_for_a_reply_that_comes_to_nothing_is_stopped(notes, how):
    """`look a` is complete with the second piece; there is no other try."""
    agent = agent_of([UNSAFE[how]] * 2, notes.tool("look", read_only=True), retries=0, **PACE)
    seen: list[Any] = []
    see = seen.append

    async def main():
        with suppress(ModelError):
            async for event in agent.stream("go"):
                see(event)
        return len(asyncio.all_tasks()) - 1

    assert run_virtual(main()) == 0
    assert notes.begun[0] == (60, "look a")
    assert all(span.end - span.start < 300 for span in notes.spans)
    outcomes = [event.outcome for event in seen if isinstance(event, ToolFinished)]
    assert outcomes == ["discarded"] * len(notes.begun)


@pytest.mark.parametrize("how", ["length", "broken", "error"])
def test_a_reply_that_is_asked_for_again_runs_again(notes, how):
    done = ran([UNSAFE[how], looks("a", "b"), "ok"], notes.tool("look", read_only=True), **PACE)
    assert [name for _, name in notes.begun] == ["look a", "look a", "look b"]
    assert done.contents == ["a look", "b look"]
    assert [event.outcome for _, event in done.of(ToolFinished)] == ["discarded", "ok", "ok"]
    assert done.result.trace.turns[0].discarded == 1
    assert done.result.trace.unattributed_ms == 0


def test_what_ended_early_for_a_reply_that_came_to_nothing_is_forgotten(notes):
    cut = raw(*TWO, *[PAUSE] * 9, end("length"))
    done = ran([cut, looks("a", "b"), "ok"], notes.tool("look", 20, read_only=True), **PACE)
    assert [name for _, name in notes.begun] == ["look a", "look a", "look b"]
    assert [facts.outcome for facts in done.calls] == ["ok", "ok"]
    assert done.result.trace.turns[0].discarded == 1


def test_discarded_calls_are_counted_though_the_next_reply_has_none(notes):
    done = ran([UNSAFE["length"], "It is fine."], notes.tool("look", read_only=True), **PACE)
    assert done.result.output == "It is fine."
    assert done.result.trace.turns[0].discarded == 1


def test_the_reader_learns_first_that_calls_are_discarded_and_then_that_the_reply_starts_anew(notes):
    done = ran([UNSAFE["length"], "ok"], notes.tool("look", read_only=True), **PACE)
    kinds = [(at, type(event)) for at, event in done.events if isinstance(event, ToolStarted | ToolFinished | Reset)]
    assert kinds == [(60, ToolStarted), (70, ToolFinished), (70, Reset)]


def test_calls_with_effects_never_run_for_a_reply_that_ends_unsafe(notes):
    calls = head(0, "send", '{"key":"a"}'), head(1, "send", '{"key":"b"}')
    ran([raw(*calls, end("length")), "ok"], notes.tool("send"), **PACE)
    assert notes.begun == []


def test_leaving_the_stream_while_the_model_writes_stops_what_ran_early(notes):
    agent = agent_of([looks("a", "b", "c")], notes.tool("look", read_only=True), **PACE)

    async def main():
        events = agent.stream("go")
        async for event in events:
            if isinstance(event, ToolStarted):
                break
        await events.aclose()
        return len(asyncio.all_tasks()) - 1

    assert run_virtual(main()) == 0
    assert notes.times() == {"look a": (90, 90)}


def test_a_deadline_while_the_model_writes_stops_what_ran_early(notes):
    """Tools at the answer reserve, the reply at the end."""
    agent = agent_of(
        [looks("a", "b", "c", "d")] * 9,
        notes.tool("look", read_only=True),
        budget=Budget(total=0.15, answer_reserve=0.01),
        **PACE,
    )

    async def main():
        with suppress(ModelError):
            await agent.run("go")
        return now_ms(), len(asyncio.all_tasks()) - 1

    assert run_virtual(main()) == (150, 0)
    assert {span.end for span in notes.spans} == {140}


def test_cancelling_stops_all_at_once_and_lets_none_begin(notes):
    """`look` takes 40 ms to clean up, in which `work` goes on and, when it has ended, `send` begins."""

    @tool
    async def look() -> None:
        """Something that has to be cleaned up behind."""
        try:
            await asyncio.sleep(1)
        finally:
            await asyncio.sleep(0.04)

    tools = notes.tool("first", 10), look, notes.tool("work", 120), notes.tool("send")
    agent = agent_of([[call(each.name) for each in tools]], *tools, max_parallel=2)

    async def main():
        task = asyncio.create_task(agent.run("go"))
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.wait({task}, timeout=0.1)
        return len(asyncio.all_tasks())

    assert run_virtual(main()) == 1
    assert notes.times() == {"first": (0, 10), "work": (10, 100)}


# The graph


@pytest.mark.parametrize(
    ("written", "begun"),
    [
        ("look a, look b, look c", "0 look a, 0 look b, 0 look c"),
        ("write a, read a", "0 write a, 200 read a"),
        ("read a, write a", "0 read a, 100 write a"),
        ("read a, write b, read c", "0 read a, 0 write b, 0 read c"),
        ("read a, write a, read a", "0 read a, 100 write a, 300 read a"),
        ("write a, read a, read a", "0 write a, 200 read a"),
        ("write a, write a, write b", "0 write a, 0 write b, 200 write a"),
        ("look a, alone, look b", "0 look a, 300 alone, 350 look b"),
        ("alone, alone", "0 alone, 50 alone"),
        ("read a, alone, write a", "0 read a, 100 alone, 150 write a"),
    ],
)
def test_calls_run_side_by_side_unless_they_must_not(notes, written, begun):
    tools = (
        notes.tool("look", read_only=True),
        notes.tool("read", 100, read_only=True, reads=["order:{key}"]),
        notes.tool("write", 200, writes=["order:{key}"]),
        notes.tool("alone", 50, sequential=True),
    )
    calls = [call(name, **({"key": key[0]} if key else {})) for name, *key in map(str.split, written.split(", "))]
    ran([calls, "ok"], *tools)
    assert ", ".join(f"{at:g} {what}" for at, what in notes.begun) == begun


@pytest.mark.parametrize("written", list(permutations(("top", "left", "right", "bottom"))))
def test_a_diamond_takes_its_longest_path_in_whatever_order_it_was_written(written):
    notes = Notes()
    tools = (
        notes.tool("top", 100),
        notes.tool("left", 200, after=["top"]),
        notes.tool("right", 300, after=["top"]),
        notes.tool("bottom", 100, after=["left", "right"]),
    )
    done = ran([[call(name) for name in written], "ok"], *tools)
    assert notes.times() == {"top": (0, 100), "left": (100, 300), "right": (100, 400), "bottom": (400, 500)}
    assert done.result.trace.end_to_end_ms == 500
    assert done.contents == list(written)


def test_the_diamond_takes_all_its_time_where_one_may_run_at_once(notes):
    tools = notes.tool("top", 100), notes.tool("left", 200, after=["top"]), notes.tool("right", 300, after=["top"])
    done = ran([[call("right"), call("left"), call("top")], "ok"], *tools, max_parallel=1)
    assert done.result.trace.end_to_end_ms == 600
    assert [what for _, what in notes.begun] == ["top", "right", "left"]


@pytest.mark.parametrize("written", list(permutations(("early", "late", "write"))))
def test_after_and_resources_together_never_wait_for_each_other(written):
    """`late` comes after `early` and both read what `write` writes."""
    notes = Notes()
    tools = (
        notes.tool("early", 100, reads=["x"]),
        notes.tool("late", 100, after=["early"], reads=["x"]),
        notes.tool("write", 100, writes=["x"]),
    )
    ran([[call(name) for name in written], "ok"], *tools)
    starts = {name: start for name, (start, _) in notes.times().items()}
    assert sorted(starts.values()) == [0, 100, 200]
    assert starts["early"] < starts["late"]


def test_after_waits_only_for_calls_of_the_same_reply(notes):
    ran([call("late"), call("early"), "ok"], notes.tool("early", 100), notes.tool("late", 100, after=["early"]))
    assert notes.begun == [(0, "late"), (100, "early")]


def test_a_call_that_failed_keeps_none_waiting(notes):
    tools = notes.tool("write", 100, fails=1, writes=["x"]), notes.tool("read", 100, reads=["x"])
    done = ran([[call("write"), call("read")], "ok"], *tools)
    assert done.errors == ["write is down.", ""]


def test_what_comes_after_a_call_that_failed_is_not_run(notes):
    tools = notes.tool("charge", 100, fails=1), notes.tool("ship", 100, after=["charge"])
    done = ran([[call("charge"), call("ship")], "ok"], *tools)
    assert done.errors == ["charge is down.", "ship was not run, because it comes after charge, which failed."]


def test_waiting_has_an_owner_who_names_what_it_waited_for(notes):
    tools = notes.tool("write", 100, writes=["order:{key}"]), notes.tool("read", 100, reads=["order:{key}"])
    late = notes.tool("late", 100, after=["read"])
    done = ran([[call("write", key="a"), call("read", key="a"), call("late")], "ok"], *tools, late, max_parallel=2)
    assert [facts.waited_for for facts in done.calls] == ["", "write (order:a)", "read"]
    stages = done.result.trace.stages
    waits = [(stage.name, stage.note, stage.end - stage.start) for stage in stages if stage.kind == "wait"]
    assert waits == [("read", "for write (order:a)", 100 * NS_PER_MS), ("late", "for read", 200 * NS_PER_MS)]
    assert done.result.trace.critical_ms()["tool"] == done.result.trace.end_to_end_ms == 300


def test_a_circle_of_tools_is_refused_when_the_agent_is_made(notes):
    tools = [notes.tool("a", after=["b"]), notes.tool("b", after=["a"])]
    with pytest.raises(ConfigError, match="a after b after a"):
        Agent(model="m", endpoint=ScriptedModel([]), tools=tools)


def test_time_in_which_the_model_writes_on_is_the_models(notes):
    """The first read has one call whole and the next begun; then the model takes its time."""
    first = head(0, "send", '{"key":"a"}') + head(1, "send", '{"key":')
    reply = raw(first, *[PAUSE] * 9, more(1, '"b"}') + end())
    done = ran([reply, "ok"], notes.tool("send"), **PACE)
    assert notes.begun == [(150, "send a"), (150, "send b")]
    assert done.result.trace.critical_ms() == {"prefill": 100, "decode": 100, "tool": 300}


# Plans


def step(name: str, of: str, **arguments: Any) -> dict[str, Any]:
    return {"id": name, "tool": of, "arguments": arguments}


def plan(*steps: dict[str, Any]) -> Call:
    return call("plan", steps=list(steps))


def ref(path: str) -> dict[str, str]:
    return {"$ref": path}


def planned(*steps: dict[str, Any], tools: Any, **options: Any) -> Ran:
    return ran([plan(*steps), "ok"], *tools, plan=True, **options)


def written_at(call: Call, until: str) -> float:
    """When the model has written the arguments up to the end of this text (ms)."""
    return 50 + 10 * (1 + (call.arguments.index(until) + len(until) - 1) // 4)


CHAIN = step("s1", "look", key="a"), step("s2", "look", key=ref("s1")), step("s3", "look", key=ref("s2"))


def test_calls_that_need_each_other_cost_one_turn_of_the_model(notes):
    done = planned(*CHAIN, tools=[notes.tool("look", read_only=True)], ttft=0.05)
    assert notes.begun == [(50, "look a"), (350, "look a look"), (650, "look a look look")]
    assert json.loads(done.contents[0]) == {"s1": "a look", "s2": "a look look", "s3": "a look look look"}
    assert (len(done.model.requests), done.result.trace.end_to_end_ms) == (2, 1000)
    assert [facts.waited_for for facts in done.calls] == ["", "look", "look"]


def test_steps_start_while_the_plan_is_being_written(notes):
    done = planned(*CHAIN, tools=[notes.tool("look", 10, read_only=True)], **PACE)
    made = plan(*CHAIN)
    ends = [written_at(made, f"{json.dumps(part, separators=(',', ':'))}") for part in CHAIN]
    assert [at for at, _ in notes.begun] == ends
    reply_end = written_at(made, made.arguments)
    assert head_starts(done) == [reply_end - at for at in ends]
    assert done.result.trace.end_to_end_ms == max(reply_end, ends[-1] + 10) + 50


def test_a_step_starts_when_both_it_and_what_it_needs_are_there(notes):
    planned(*CHAIN[:2], tools=[notes.tool("look", 1000, read_only=True)], **PACE)
    (first, _), (second, _) = notes.begun
    assert second == first + 1000


def test_steps_with_effects_wait_for_the_end_of_the_reply_and_those_that_need_them_too(notes):
    steps = step("s1", "send", key="a"), step("s2", "look", key="b"), step("s3", "look", key=ref("s1"))
    planned(*steps, tools=[notes.tool("send", 100), notes.tool("look", 100, read_only=True)], **PACE)
    made = plan(*steps)
    over = written_at(made, made.arguments)
    assert notes.begun == [(written_at(made, '"b"}}'), "look b"), (over, "send a"), (over + 100, "look a send")]


def test_steps_may_be_written_before_what_they_need(notes):
    done = planned(*CHAIN[::-1], tools=[notes.tool("look", 100, read_only=True)])
    assert list(json.loads(done.contents[0])) == ["s3", "s2", "s1"]
    assert [at for at, _ in notes.begun] == [0, 100, 200]


def test_steps_that_need_nothing_run_side_by_side_within_bounds(notes):
    steps = [step(f"s{at}", "look", key=str(at)) for at in range(4)]
    done = planned(*steps, tools=[notes.tool("look", read_only=True)], max_parallel=2)
    assert done.result.trace.end_to_end_ms == 600


def test_a_plan_of_one_step_is_a_plain_call(notes):
    done = planned(step("s1", "look", key="a"), tools=[notes.tool("look")])
    assert done.contents == ["a look"]


@tool(read_only=True)
async def orders(user: str) -> list[dict[str, Any]]:
    """All orders of a user."""
    return [{"id": number, "by": user} for number in range(3)]


@tool(read_only=True)
async def order(number: int) -> str:
    """One order."""
    return f"order {number}"


@tool(read_only=True)
async def total(numbers: list[int]) -> int:
    """A sum."""
    return sum(numbers)


def test_references_lead_into_results():
    steps = (
        step("all", "orders", user="ann"),
        step("last", "order", number=ref("all[-1].id")),
        step("sum", "total", numbers=ref("all[*].id")),
        step("mixed", "total", numbers=[7, ref("sum")]),
    )
    results = json.loads(planned(*steps, tools=[orders, order, total]).contents[0])
    assert [results[name] for name in ("last", "sum", "mixed")] == ["order 2", 3, 10]


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([step("s1", "order", number=ref("s9"))], "s1 refers to s9, which is no step; the steps are: s1"),
        (
            [step("s1", "order", number=ref("s2")), step("s2", "order", number=ref("s1"))],
            "s1 -> s2 -> s1 is a cycle, so that none could start",
        ),
        ([step("s1", "order", number=ref("s1"))], "s1 refers to itself"),
        ([step("s1", "odrer", number=1)], "there is no tool odrer; there is: orders, order, total"),
        ([step("s1", "order", number=ref("s1["))], "'s1[' is no path; write one like items[0].id"),
        ([], "it has no steps"),
    ],
)
def test_a_plan_that_cannot_be_goes_back_to_the_model_and_nothing_of_it_runs(steps, said):
    done = planned(*steps, tools=[orders, order, total])
    assert said in done.errors[0]
    assert done.of(ToolStarted) == []


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (step("s2", "order", number=ref("s1[9].id")), "s1 has 3 items, so there is no [9]"),
        (step("s2", "order", number=ref("s1[0].nr")), 's1[0] has no "nr"; it has: id, by'),
        (step("s2", "order", number=ref("s1[0].by")), "Expected `int`, got `str` - at `$.number`"),
        (step("s2", "order", nr=ref("s1[0].id")), "nr is no parameter of order"),
    ],
)
def test_a_reference_that_leads_to_nothing_usable_fails_its_step_with_what_is_there(second, said):
    done = planned(step("s1", "orders", user="ann"), second, tools=[orders, order])
    results = json.loads(done.contents[0])
    assert said in results["s2"]["error"]
    assert len(results["s1"]) == 3


def test_a_step_that_fails_fails_only_those_that_need_it(notes):
    steps = (
        step("s1", "moody"),
        step("s2", "look", key=ref("s1")),
        step("s3", "look", key=ref("s2")),
        step("s4", "look"),
    )
    done = planned(*steps, tools=[notes.tool("moody", fails=1), notes.tool("look")])
    results = json.loads(done.contents[0])
    assert results["s4"] == "look"
    assert results["s1"] == {"error": "moody is down."}
    assert "s1 failed: moody is down." in results["s2"]["error"]
    assert "s2 failed" in results["s3"]["error"]
    assert [facts.outcome for facts in done.calls] == ["error", "error", "error", "ok"]


def test_a_step_may_take_a_number_of_one_step_and_digits_that_are_text_of_another():
    @tool(read_only=True)
    async def newest() -> str:
        """The newest order's number."""
        return "20250101"

    @tool(read_only=True)
    async def count() -> int:
        """How many."""
        return 5

    @tool(read_only=True)
    async def parts(order_id: str, limit: int) -> str:
        """Parts of an order."""
        return f"{limit} of {order_id}"

    steps = step("s1", "newest"), step("s2", "count"), step("s3", "parts", order_id=ref("s1"), limit=ref("s2"))
    done = planned(*steps, tools=[newest, count, parts])
    assert json.loads(done.contents[0])["s3"] == "5 of 20250101"


@pytest.mark.parametrize("steps", [1, 2])
def test_of_a_plan_that_turns_out_wrong_the_model_gets_what_was_begun(notes, steps):
    good = [step(f"s{at}", "look", key=str(at)) for at in range(steps)]
    done = planned(*good, step("x", "nothing"), tools=[notes.tool("look", read_only=True)], **PACE)
    told = json.loads(done.contents[0])
    assert "there is no tool nothing" in told["error"]
    assert told["known"] == {f"s{at}": f"{at} look" for at in range(steps)}


def test_a_step_gets_the_whole_of_a_result_that_the_model_reads_in_part():
    steps = step("s1", "orders", user="x" * 400), step("s2", "order", number=ref("s1[2].id"))
    done = planned(*steps, tools=[orders, order], max_result=75)
    assert json.loads(done.contents[0])["s2"] == "order 2"


def test_a_step_gets_the_whole_of_a_result_that_was_joined():
    same = [step(name, "orders", user="x" * 400) for name in ("s1", "s2")]
    done = planned(*same, step("s3", "order", number=ref("s2[2].id")), tools=[orders, order], max_result=75)
    assert json.loads(done.contents[0])["s3"] == "order 2"


def test_plans_and_calls_of_one_reply_keep_the_order_in_which_they_were_written(notes):
    """The second read has the plan's last step, which writes, and after it the call that reads the same."""
    text = plan(step("s1", "look", key="a"), step("s2", "write", key="a")).arguments
    at = text.index('{"id":"s2"') + 4
    reply = raw(head(0, "plan", text[:at]), more(0, text[at:]) + head(1, "read", '{"key":"a"}'), head(2, "look"), end())
    tools = (
        notes.tool("look", read_only=True),
        notes.tool("write", 100, writes=["x"]),
        notes.tool("read", 100, read_only=True, reads=["x"]),
    )
    ran([reply, "ok"], *tools, plan=True, **PACE)
    assert [what for _, what in notes.begun if "look" not in what] == ["write a", "read a"]


def test_no_more_steps_are_begun_early_than_a_plan_may_have(notes):
    steps = [step(f"s{at}", "look", key=str(at)) for at in range(60)]
    done = planned(*steps, tools=[notes.tool("look", 10, read_only=True)], **PACE)
    assert "it has 60 steps, 32 are the most" in done.errors[0]
    assert len(notes.begun) <= 32
