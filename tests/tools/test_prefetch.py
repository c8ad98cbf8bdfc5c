"""Prefetch at work: what it wins to the millisecond, what it never does, and what is left of it when a run is over."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop import Agent, Budget, tool
from hotloop.errors import ApprovalRequired, ConfigError, ToolError
from hotloop.events import ToolFinished, ToolStarted
from hotloop.testing import ScriptedModel, call, raw, run_virtual
from hotloop.tools.prefetch.history import History
from hotloop.tools.prefetch.kept import learned_at
from hotloop.tools.prefetch.past import Seen
from hotloop.tools.prefetch.settings import Prefetch
from timed_tools import Notes, head, in_time, now_ms, results_of

TTFT = 200
_runs = count()


def look(notes: Notes, ms: float = 300, name: str = "look", **options: Any) -> Any:
    return notes.tool(name, ms, **{"read_only": True} | options)


def teach(path: Path, *calls: tuple[str, str, str], prompt: str = "go a1 b2", times: int = 8) -> None:
    """Runs in which these calls were made one after the other: a tool, its key, and what it gave."""
    turns = [[Seen(name, {"key": key}, result, read_only=True)] for name, key, result in calls]
    runs = (f"run-{next(_runs)}" for _ in range(times))
    learned_at(path).learn([History(run, "", run, 0.0, prompt, [*turns, []]) for run in runs])


@pytest.fixture
def path(tmp_path, monkeypatch) -> Path:
    """Where it is kept what was learned; the clock by which it fades stands still."""
    monkeypatch.setattr("time.time", lambda: 0.0)
    return tmp_path / "prefetch.db"


def agent(script: Any, *tools: Any, path: Path, ttft: float = TTFT, max_inflight: int = 2, **options: Any) -> Agent:
    """An agent whose model takes its time and whose patterns are in the file."""
    model = script if isinstance(script, ScriptedModel) else ScriptedModel(script, ttft=ttft / 1000)
    prefetch = Prefetch(path=str(path), max_inflight=max_inflight)
    return Agent(model="m", endpoint=model, tools=tools, prefetch=prefetch, **options)


def asked(agent: Agent, prompt: str = "go a1 b2") -> tuple[Any, list[tuple[float, Any]]]:
    """The result of a run in virtual time, and its events as (ms, event)."""

    async def main() -> list[tuple[float, Any]]:
        return [(now_ms(), event) async for event in agent.stream(prompt)]

    events = run_virtual(main())
    return events[-1][1].result, events


def facts(result: Any) -> tuple[int, int, float, float]:
    told = result.trace.facts.get("prefetch", {"started": 0, "used": 0, "won_ms": 0.0, "wasted_ms": 0.0})
    return told["started"], told["used"], told["won_ms"], told["wasted_ms"]


def outcomes(result: Any) -> list[str]:
    return [each.outcome for turn in result.trace.turns for each in turn.calls]


# What it wins


@pytest.mark.parametrize(
    ("ms", "took", "won", "end"),
    [(50, 250, 50, "landed"), (200, 200, 200, "at once"), (300, 300, 200, "joined"), (1000, 1000, 200, "joined")],
)
def test_a_call_takes_what_is_left_of_it(path, ms, took, won, end):
    teach(path, ("look", "a1", "found"))
    notes = Notes()
    result, _ = asked(agent([call("look", key="a1"), "Done."], look(notes, ms), path=path))
    assert notes.begun == [(0.0, "look a1")]
    assert outcomes(result) == ["prefetched"]
    assert facts(result) == (1, 1, won, 0.0)
    assert result.trace.end_to_end_ms == max(ms, TTFT) + TTFT
    assert result.trace.turns[0].calls[0].saved == won * 1_000_000
    assert result.trace.unattributed_ms == 0.0
    assert "prefetch: 1 of 1 used" in str(result.trace)


def test_without_prefetch_it_takes_all_of_it(path):
    teach(path, ("look", "a1", "found"))
    plain = Agent(model="m", endpoint=ScriptedModel([call("look", key="a1"), "Done."], ttft=0.2), tools=[look(Notes())])
    result, _ = asked(plain)
    assert result.trace.end_to_end_ms == 300 + 2 * TTFT
    assert "prefetch" not in result.trace.facts


def test_what_comes_after_is_begun_as_soon_as_it_is_known_with_what(path):
    teach(path, ("find", "a1", "found"), ("look", "found", "seen"), ("look", "b2", "seen"), prompt="go a1 b2", times=20)
    notes = Notes()

    async def finding(key: str = "") -> str:
        await asyncio.sleep(0.05)
        return "u7"

    find = tool(finding, name="find", read_only=True)
    script = [call("find", key="a1"), call("look", key="u7"), call("look", key="b2"), "Done."]
    result, _ = asked(agent(script, find, look(notes, 900), path=path))
    assert notes.begun == [(50.0, "look u7"), (50.0, "look b2")]
    assert outcomes(result) == ["prefetched"] * 3
    assert result.trace.end_to_end_ms == 50 + 900 + 2 * TTFT


# What it costs where it is wrong


@pytest.mark.parametrize("ms", [50, 300, 5000])
def test_a_wrong_guess_costs_no_time_and_is_never_seen(path, ms):
    teach(path, ("look", "a1", "found"))
    script = [call("look", key="other"), "Done."]
    notes = Notes()
    result, events = asked(agent(script, look(notes, ms), path=path))
    plain, others = asked(Agent(model="m", endpoint=ScriptedModel(script, ttft=0.2), tools=[look(Notes(), ms)]))
    assert result.trace.end_to_end_ms == plain.trace.end_to_end_ms
    assert [(at, event) for at, event in events[:-1]] == [(at, event) for at, event in others[:-1]]
    assert facts(result)[:2] == (1, 0)
    assert facts(result)[3] == min(ms, TTFT + ms)
    assert f"prefetch: 0 of 1 used, {min(ms, TTFT + ms):,} ms in vain" in str(result.trace)


def test_a_run_that_ends_stops_what_nobody_asked_for(path):
    teach(path, ("look", "a1", "found"))
    notes = Notes()

    async def main() -> set[str]:
        async with agent(["Done."], look(notes, 60_000), path=path) as alone:
            await alone.run("go a1 b2")
            return {task.get_name() for task in asyncio.all_tasks()} - {asyncio.current_task().get_name()}

    left, ms = in_time(main())
    assert (left, ms) == (set(), TTFT)
    assert [span.end for span in notes.spans] == [TTFT]


def test_a_run_that_is_cancelled_leaves_nothing_at_work(path):
    teach(path, ("look", "a1", "found"))
    notes = Notes()

    async def main() -> None:
        async with agent(["Done."], look(notes, 60_000), path=path) as alone:
            task = asyncio.create_task(alone.run("go a1 b2"))
            await asyncio.sleep(0.1)
            task.cancel()
            await asyncio.wait([task])
            assert len(asyncio.all_tasks()) == 1

    run_virtual(main())
    assert [span.end for span in notes.spans] == [100.0]


def test_a_run_that_waits_for_a_person_waits_without_it(path):
    teach(path, ("look", "a1", "found"))
    notes = Notes()
    pay = notes.tool("pay", 10, approval="always")
    alone = agent([call("pay", key="x"), "Paid."], look(notes, 60_000), pay, path=path)

    async def main() -> str:
        with pytest.raises(ApprovalRequired) as waiting:
            await alone.run("go a1 b2")
        assert len(asyncio.all_tasks()) == 1
        (pending,) = waiting.value.calls
        alone.approvals.decide(waiting.value.run_id, pending.call_id, pending.digest, True)
        return (await alone.resume(waiting.value.run_id)).output

    assert run_virtual(main()) == "Paid."
    assert [name for _, name in notes.begun] == ["look a1", "pay x"]


def test_a_guess_that_fails_is_asked_for_again(path):
    teach(path, ("look", "a1", "found"))
    notes = Notes()
    result, _ = asked(agent([call("look", key="a1"), "Done."], look(notes, 50, fails=1), path=path))
    assert [name for _, name in notes.begun] == ["look a1"] * 2
    assert outcomes(result) == ["ok"]
    assert facts(result) == (1, 0, 0.0, 50.0)


def test_it_ends_with_the_time_that_the_run_has_for_tools(path):
    teach(path, ("look", "a1", "found"))
    notes = Notes()
    budget = Budget(total=1.0, answer_reserve=0.9)
    asked(agent([call("look", key="a1"), "Done."], look(notes, 900), path=path, budget=budget))
    assert [(span.start, span.end) for span in notes.spans] == [(0, 100)]


@pytest.mark.parametrize("ms", [50, 900])
def test_a_reply_that_is_asked_for_again_finds_it_again(path, ms):
    teach(path, ("look", "a1", "found"))
    notes = Notes()
    cut = raw(head(0, "look", '{"key":"a1"}'), head(1, "look"), cut=True)
    result, _ = asked(agent([cut, call("look", key="a1"), "Done."], look(notes, ms), path=path))
    assert [name for _, name in notes.begun] == ["look a1"]
    assert (outcomes(result), result.trace.turns[0].discarded) == (["prefetched"], 1)
    assert facts(result)[:2] == (1, 1)


# What it is never used for


def same(tool_options: dict[str, Any], **agent_options: Any) -> Any:
    return pytest.param(tool_options, agent_options, id=" ".join([*tool_options, *agent_options]))


@pytest.mark.parametrize(
    ("tool_options", "agent_options"),
    [
        same({"read_only": False}),
        same({"requires": ("support",)}),
        same({"allow": {"key": ["b"]}}),
        same({"approval": lambda arguments: False}),
        same({"after": ("other",)}),
        same({"sequential": True}),
    ],
)
def test_what_must_not_be_begun_ahead(path, tool_options, agent_options):
    teach(path, ("look", "a1", "found"))
    notes = Notes()
    other = look(Notes(), name="other")
    result, _ = asked(
        agent([call("look", key="a1"), "Done."], look(notes, **tool_options), other, path=path, **agent_options)
    )
    assert facts(result) == (0, 0, 0.0, 0.0)
    assert all(at >= TTFT for at, _ in notes.begun)


@pytest.mark.parametrize(
    ("reads", "writes", "begun"),
    [((), (), False), (("a",), (), False), ((), ("a",), False), (("a",), ("a",), False), (("a",), ("b",), True)],
)
def test_after_a_write_only_what_is_known_to_be_as_it_was(path, reads, writes, begun):
    save = Notes().tool("save", 50, writes=writes)
    runs = [[Seen("save", {"key": "x"}, "ok")], [Seen("look", {"key": "a1"}, "found", read_only=True)], []]
    names = [f"run-{next(_runs)}" for _ in range(8)]
    learned_at(path).learn([History(run, "", run, 0.0, "go a1", runs) for run in names])
    notes = Notes()
    script = [call("save", key="x"), call("look", key="a1"), "Done."]
    result, _ = asked(agent(script, save, look(notes, reads=reads), path=path), "go a1")
    assert (facts(result)[0] == 1) is begun
    assert notes.begun == [(TTFT + 50.0 + (0 if begun else TTFT), "look a1")]


def test_a_read_behind_a_write_of_the_same_reply_sees_what_was_written(path):
    teach(path, ("get", "a1", "old"))
    stored = {"a1": "old"}

    async def get(key: str) -> str:
        await asyncio.sleep(0.01)
        return stored[key]

    async def put(key: str) -> str:
        stored[key] = "new"
        return "saved"

    for options in ({}, {"reads": ("r:{key}",), "ttl": 60.0}):
        stored["a1"] = "old"
        model = ScriptedModel([[call("put", key="a1"), call("get", key="a1")], "Done."], ttft=0.2)
        writes = {"writes": ("r:{key}",)} if options else {}
        tools = tool(get, name="get", read_only=True, **options), tool(put, name="put", **writes)
        result, _ = asked(agent(model, *tools, path=path))
        assert results_of(model.requests[-1]) == ["saved", "new"]
        assert facts(result) == (1, 0, 0.0, 10.0)


@pytest.mark.parametrize("confidence", [0.9, 1.0])
def test_what_is_not_sure_enough(path, confidence):
    teach(path, ("look", "a1", "found"))
    notes = Notes()
    model = ScriptedModel([call("look", key="a1"), "Done."], ttft=0.2)
    prefetch = Prefetch(confidence=confidence, path=str(path))
    result, _ = asked(Agent(model="m", endpoint=model, tools=[look(notes)], prefetch=prefetch))
    assert facts(result)[0] == 0


# Places


def pairs(path: Path) -> None:
    """Runs that look for all words of the prompt at once."""
    names = [f"run-{next(_runs)}" for _ in range(8)]
    turn = [Seen("look", {"key": key}, "found", read_only=True) for key in ("a1", "b2", "c3", "d4")]
    learned_at(path).learn([History(run, "", run, 0.0, "go a1 b2 c3 d4", [turn, []]) for run in names])


@pytest.mark.parametrize(("inflight", "parallel", "begun"), [(1, 8, 1), (2, 8, 2), (9, 8, 4), (9, 3, 3)])
def test_so_many_are_under_way_at_once(path, inflight, parallel, begun):
    pairs(path)
    notes = Notes()
    options = {"max_inflight": inflight, "max_parallel": parallel}
    asked(agent(["Done."], look(notes, 900), path=path, **options), "go a1 b2 c3 d4")
    assert len(notes.begun) == begun


def test_calls_of_the_model_go_first(path):
    pairs(path)
    notes = Notes()
    script = [[call("look", key="x"), call("look", key="a1")], "Done."]
    alone = agent(script, look(notes, 900), path=path, max_inflight=3, max_parallel=2)
    result, _ = asked(alone, "go a1 b2 c3 d4")
    at_work = [(span.start, span.end) for span in notes.spans]
    assert max(sum(start <= at < end for start, end in at_work) for at, _ in notes.begun) == 2
    assert [at for at, name in notes.begun if name == "look x"] == [TTFT]
    assert result.trace.turns[0].calls[1].outcome == "prefetched"


def test_a_call_that_must_be_alone_is_alone(path):
    teach(path, ("look", "a1", "found"))
    notes = Notes()
    alone = notes.tool("alone", 50, sequential=True)
    asked(agent([call("alone", key="x"), "Done."], look(notes, 900), alone, path=path))
    assert [(span.name, span.end) for span in notes.spans] == [("look", TTFT), ("alone", TTFT + 50)]


# How long a result is good for


@pytest.mark.parametrize(("options", "looked"), [({}, 2), ({"ttl": 60.0}, 1)])
def test_a_result_without_ttl_is_for_the_turn_that_it_was_expected_in(path, options, looked):
    teach(path, ("look", "a1", "found"))
    notes, other = Notes(), look(Notes(), 10, name="other")
    script = [call("other", key="x"), call("look", key="a1"), "Done."]
    result, _ = asked(agent(script, look(notes, 50, **options), other, path=path))
    assert len(notes.begun) == looked
    assert facts(result)[:2] == (1, looked % 2)


def test_a_result_is_for_whom_it_was_had(path):
    teach(path, ("look", "a1", "found"))
    notes = Notes()
    alone = agent([call("look", key="a1"), "Done."] * 2, look(notes, 50, ttl=60.0, scope="user"), path=path)

    async def main() -> None:
        await alone.run("go a1 b2", user="ann")
        await alone.run("go a1 b2", user="bob")

    run_virtual(main())
    assert len(notes.begun) == 2


def test_runs_that_end_do_not_stop_what_others_ask_for(path):
    teach(path, ("look", "a1", "found"))
    notes = Notes()
    guessing = agent(ScriptedModel(["Done."], ttft=0.2), look(notes, 900, ttl=60.0, scope="global"), path=path)

    async def main() -> str:
        run = asyncio.create_task(guessing.run("go a1 b2"))
        await asyncio.sleep(0.1)
        model = ScriptedModel([call("look", key="a1"), "It is there."])
        other = Agent(model="m", endpoint=model, tools=guessing.tools)
        text = (await other.run("Look.")).output
        await run
        return text

    assert in_time(main()) == ("It is there.", 900.0)
    assert len(notes.begun) == 1


# What is told of it


def test_it_is_shown_when_it_is_used(path):
    teach(path, ("look", "a1", "found"))
    _, events = asked(agent([call("look", key="a1"), "Done."], look(Notes(), 300), path=path))
    told = [(at, type(event), event.call_id) for at, event in events if isinstance(event, ToolStarted | ToolFinished)]
    assert [(at, kind) for at, kind, _ in told] == [(TTFT, ToolStarted), (300, ToolFinished)]
    assert len({call_id for *_, call_id in told}) == 1


def test_it_is_on_record_as_what_it_is(path, tmp_path):
    teach(path, ("look", "a1", "found"))
    log = tmp_path / "audit.jsonl"
    script = [call("look", key="other"), call("look", key="a1"), "Done."]
    asked(agent(script, look(Notes(), 300), path=path, audit=log))
    records = [json.loads(line) for line in log.read_text().splitlines()]
    told = [(each["call_id"], each.get("decision") or each["outcome"]) for each in records]
    assert told[0] == ("ahead0", "prefetched")
    assert ("ahead0", "ok") in told or ("ahead0", "cancelled") in told
    assert [what for call_id, what in told if not call_id.startswith("ahead")] == ["allowed", "ok", "allowed", "ok"]


def test_each_has_an_id_of_its_own(path):
    pairs(path)
    result, _ = asked(agent(["Done."], look(Notes(), 900), path=path), "go a1 b2 c3 d4")
    assert [each.call_id for each in result.trace.facts["prefetch"]["calls"]] == ["ahead0", "ahead1"]


def test_plain_functions_have_threads_of_their_own(path):
    teach(path, ("look", "a1", "found"))
    names = []

    def blocking(key: str = "") -> str:
        names.append(threading.current_thread().name)
        return f"{key} found"

    script = [call("look", key="a1"), "Done."]
    result, _ = asked(agent(script, tool(blocking, name="look", read_only=True), path=path))
    assert outcomes(result) == ["prefetched"] and len(names) == 1


def test_runs_teach_the_agent_itself(path):
    from hotloop.trace.recording.recorder import recorder

    notes = Notes()
    model = ScriptedModel(lambda request: _look_for_it(request), ttft=0.2)
    alone = agent(model, look(notes), path=path, name="shop")

    async def main() -> list[float]:
        took = []
        for number in range(8):
            took.append((await alone.run(f"find order {1000 + number}")).trace.end_to_end_ms)
            await asyncio.to_thread(recorder.flush, 5.0)
        return took

    took = run_virtual(main())
    assert (took[0], took[-1]) == (700.0, 500.0)


def _look_for_it(request: dict[str, Any]) -> Any:
    last = request["messages"][-1]
    return call("look", key=last["content"].split()[-1]) if last["role"] == "user" else "Done."


# How it is declared


def test_in_a_file(tmp_path):
    (tmp_path / "agent.yaml").write_text(
        "inference: {endpoint: http://127.0.0.1:9/v1, model: m}\n"
        "tools: {prefetch: {confidence: 0.7, max_inflight: 3, path: learned.db}}\n"
    )
    asked_for = Agent.from_yaml(tmp_path / "agent.yaml")
    assert (tmp_path / "learned.db").exists()
    assert asked_for._prefetch == Prefetch(confidence=0.7, max_inflight=3, path=str(tmp_path / "learned.db"))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"confidence": 0.0}, "confidence"),
        ({"confidence": 1.5}, "confidence"),
        ({"max_inflight": 0}, "max_inflight"),
        ({"path": ""}, "path"),
    ],
)
def test_values_that_cannot_be(options, complaint):
    with pytest.raises(ConfigError, match=complaint):
        Prefetch(**options)
    with pytest.raises(ConfigError, match="prefetch"):
        Agent(model="m", endpoint=ScriptedModel([]), prefetch=options)


# Whatever the world is like

KEYS = ("a1", "b2", "c3", "d4")
calls = st.tuples(st.sampled_from(["look", "find"]), st.sampled_from(KEYS))


class ReadOnlyWorld:
    """Two tools that only read, some of whose calls fail, and how long each takes."""

    def __init__(self, ms: dict[tuple[str, str], int], failing: set[tuple[str, str]], ttl: float | None) -> None:
        self.tools = [self._tool(name, ms, failing, ttl) for name in ("look", "find")]
        self.spans: list[tuple[float, float]] = []
        self.at_work = 0

    def _tool(self, name: str, ms: dict[tuple[str, str], int], failing: set[tuple[str, str]], ttl: float | None) -> Any:
        async def work(key: str) -> dict[str, str]:
            self.at_work += 1
            start = now_ms()
            try:
                await asyncio.sleep(ms.get((name, key), 20) / 1000)
            finally:
                self.at_work -= 1
                self.spans.append((start, now_ms()))
            if (name, key) in failing:
                raise ToolError(f"{name} knows no {key}.")
            return {"key": KEYS[(KEYS.index(key) + 1) % 4], "of": name}

        return tool(work, name=name, read_only=True, ttl=ttl)


@settings(max_examples=60, deadline=None)
@given(
    taught=st.lists(st.lists(calls, min_size=1, max_size=4), min_size=1, max_size=3),
    script=st.lists(st.lists(calls, min_size=1, max_size=3), max_size=3),
    ms=st.dictionaries(calls, st.sampled_from([0, 10, 200, 700]), max_size=4),
    failing=st.sets(calls, max_size=2),
    ttl=st.sampled_from([None, 60.0]),
    parallel=st.sampled_from([1, 2, 8]),
)
def test_a_run_is_the_same_with_it_and_without(tmp_path_factory, taught, script, ms, failing, ttl, parallel):
    path = tmp_path_factory.mktemp("learned") / "prefetch.db"
    replies = [*([call(name, key=key) for name, key in turn] for turn in script), "Done."]

    def run(**options: Any) -> tuple[Any, Sequence[Any], float]:
        world = ReadOnlyWorld(ms, failing, ttl)
        model = ScriptedModel(replies, ttft=0.1, tpot=0.001)
        alone = Agent(model="m", endpoint=model, tools=world.tools, max_parallel=parallel, **options)

        async def main() -> Any:
            async with alone:
                result = await alone.run("go a1 b2 c3 d4")
                assert len(asyncio.all_tasks()) == 1 and world.at_work == 0
                assert all(sum(a <= at < b for a, b in world.spans) <= parallel for at, _ in world.spans)
                return result

        result = run_virtual(main())
        return result, model.requests, result.trace.end_to_end_ms

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.time", lambda: 0.0)
        for turns in taught:
            teach(
                path,
                *((name, key, json.dumps({"key": key, "of": name})) for name, key in turns),
                prompt="go a1 b2 c3 d4",
            )
        ahead, requests, ms_ahead = run(prefetch=Prefetch(path=str(path), confidence=0.2))
        plain, others, ms_plain = run()
    assert (ahead.output, requests) == (plain.output, others)
    assert ahead.trace.unattributed_ms == 0.0
    assert ms_ahead <= ms_plain
