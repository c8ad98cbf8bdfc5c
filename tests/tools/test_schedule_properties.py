"""Whatever the tools are and the model writes: nothing meets that must not, nothing runs twice, nothing is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop import Agent, tool
from hotloop.errors import ToolError
from hotloop.events import ToolFinished, ToolStarted
from hotloop.lab.script import RawReply
from hotloop.testing import ScriptedModel, raw, run_virtual
from hotloop.tools.defining.tool import Tool
from timed_tools import end, head, more, now_ms, results_of

TTFT, PIECE = 50, 4
MS = st.sampled_from([0, 10, 30, 70, 200])


class Kind(NamedTuple):
    """A tool as it is declared."""

    name: str
    read_only: bool
    after: tuple[str, ...]
    sequential: bool
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    ttl: float | None
    scope: str | None


class Made(NamedTuple):
    """A call that the model makes; of a step of a plan, `takes` are the steps whose results it takes."""

    kind: Kind
    key: str
    ms: int
    number: int
    fails: bool
    takes: tuple[int, ...] = ()

    def names(self, templates: Sequence[str]) -> set[str]:
        return {template.format(key=self.key) for template in templates}

    def conflicts(self, other: Made) -> bool:
        if self.kind.sequential or other.kind.sequential:
            return True
        mine, others = self.names(self.kind.writes), other.names(other.kind.writes)
        return bool(mine & (others | other.names(other.kind.reads)) or others & self.names(self.kind.reads))

    @property
    def arguments(self) -> dict[str, Any]:
        taken = {"takes": [{"$ref": f"s{place}.number"} for place in self.takes]} if self.takes else {}
        return {"key": self.key, "ms": self.ms, "number": self.number, "fails": self.fails} | taken


Written = list[Made | list[Made]]
"""A reply: calls, and plans with their steps."""


class World:
    """The tools at work: it sees each begin and end, and notes what is not right with it."""

    def __init__(self, kinds: Sequence[Kind], places: int, lingers: float = 0) -> None:
        self.tools = [self._tool(kind) for kind in kinds]
        self.running: list[Made] = []
        self.begun: list[tuple[float, Made]] = []
        self.wrong: list[str] = []
        self._places = places
        self._lingers = lingers

    def _tool(self, kind: Kind) -> Tool:
        async def work(key: str, ms: int, number: int, fails: bool, takes: list[int] | None = None) -> dict[str, Any]:
            made = Made(kind, key, ms, number, fails)
            self._enter(made)
            try:
                await asyncio.sleep(ms / 1000)
            except asyncio.CancelledError:
                await asyncio.sleep(self._lingers / 1000)
                raise
            finally:
                self.running.remove(made)
            if fails:
                raise ToolError("As it was told to.")
            return {"number": number, "key": key}

        options: dict[str, Any] = kind._asdict()
        return tool(work, **options)

    def _enter(self, made: Made) -> None:
        met = [other for other in self.running if other.conflicts(made)]
        self.running.append(made)
        self.begun.append((now_ms(), made))
        if met:
            self.wrong.append(f"{made} meets {met}")
        if len(self.running) > self._places:
            self.wrong.append(f"{len(self.running)} run at once")


# What there may be


@st.composite
def kinds(draw: st.DrawFn) -> list[Kind]:
    made: list[Kind] = []
    for place in range(draw(st.integers(1, 5))):
        read_only = draw(st.integers(0, 2)) < 2
        after = {draw(st.sampled_from(made))} if made and draw(st.integers(0, 3)) == 3 else set()
        resources = st.lists(st.sampled_from(["x", "y:{key}"]), max_size=1).map(tuple)
        made.append(
            Kind(
                name=f"t{place}",
                read_only=read_only,
                after=tuple(sorted(kind.name for kind in after)),
                sequential=draw(st.integers(0, 9)) == 9,
                reads=draw(resources),
                writes=() if read_only else draw(resources),
                ttl=draw(st.sampled_from([None, 60.0])) if read_only else None,
                scope=draw(st.sampled_from([None, "run", "global"])) if read_only else None,
            )
        )
    return draw(st.permutations(made))


@st.composite
def replies(draw: st.DrawFn, some: Sequence[Kind], *, plans: bool) -> Written:
    """Calls with numbers of their own, but for a reader that is called once more."""
    number, reply = 0, []

    def made(takes: tuple[int, ...] = ()) -> Made:
        nonlocal number
        number += 1
        fails = draw(st.integers(0, 5)) == 5
        return Made(draw(st.sampled_from(some)), draw(st.sampled_from("ab")), draw(MS), number, fails, takes)

    for _ in range(draw(st.integers(1, 6))):
        if plans and draw(st.booleans()):
            count = draw(st.integers(1, 4))
            reply.append([made(draw(takes_of(place))) for place in range(count)])
        elif reply and draw(st.integers(0, 4)) == 4:
            again = draw(st.sampled_from(reply))
            reply.append(again if isinstance(again, Made) and again.kind.read_only else made())
        else:
            reply.append(made())
    return reply


def takes_of(place: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.sets(st.integers(0, place - 1), max_size=2).map(tuple) if place else st.just(())


class Scene(NamedTuple):
    """Tools, a reply that calls them, where its reads are `cut` and how many ms apart, and how many may run at once."""

    kinds: list[Kind]
    reply: Written
    cuts: list[int]
    pace: int
    places: int

    @property
    def calls(self) -> list[Made]:
        """All that is to run, in the order in which it is written."""
        return [made for each in self.reply for made in (each if isinstance(each, list) else [each])]

    @property
    def pieces(self) -> list[bytes]:
        """The reply as it is read."""
        frames = frames_of(self.reply)
        ends = [*(at % len(frames) for at in self.cuts), len(frames)]
        edges = sorted({0, *ends})
        return [b"".join(frames[at:to]) for at, to in pairwise(edges)]

    @property
    def ends(self) -> float:
        """When the reply is complete (ms)."""
        return TTFT + self.pace * (len(self.pieces) - 1)

    def comes(self, frame: bytes) -> float:
        """When this frame arrives (ms)."""
        return TTFT + self.pace * next(at for at, piece in enumerate(self.pieces) if frame in piece)

    def agent(self, world: World, *before: RawReply) -> Agent:
        """An agent whose model gives these replies, then this one, then an answer."""
        script = [*before, raw(*self.pieces), "ok"]
        model = ScriptedModel(script, ttft=TTFT / 1000, tpot=self.pace / 1000)
        return Agent(model="m", endpoint=model, tools=world.tools, max_parallel=self.places, plan=True)


@st.composite
def scenes(draw: st.DrawFn, *, plans: bool = True) -> Scene:
    some = draw(kinds())
    reply = draw(replies(some, plans=plans))
    cuts = draw(st.lists(st.integers(1, 500), max_size=12))
    return Scene(some, reply, cuts, draw(st.sampled_from([0, 5, 40])), draw(st.integers(1, 8)))


def frames_of(reply: Written) -> list[bytes]:
    frames: list[bytes] = []
    for place, each in enumerate(reply):
        name, arguments = ("plan", plan_of(each)) if isinstance(each, list) else (each.kind.name, each.arguments)
        text = json.dumps(arguments)
        frames += [head(place, name), *[more(place, text[at : at + PIECE]) for at in range(0, len(text), PIECE)]]
    return [*frames, end()]


def plan_of(steps: list[Made]) -> dict[str, Any]:
    parts = [{"id": f"s{at}", "tool": made.kind.name, "arguments": made.arguments} for at, made in enumerate(steps)]
    return {"steps": parts}


# What must be


def first_of(reply: Written) -> list[set[int]]:
    """For each call those that must end before it wherever they were written."""
    calls = [made for each in reply for made in (each if isinstance(each, list) else [each])]
    first = [
        {at for at, other in enumerate(calls) if other is not made and other.kind.name in made.kind.after}
        for made in calls
    ]
    start = 0
    for each in reply:
        for place, made in enumerate(each if isinstance(each, list) else [each]):
            first[start + place] |= {start + taken for taken in made.takes}
        start += len(each) if isinstance(each, list) else 1
    return first


def sequence_of(first: list[set[int]]) -> list[int]:
    """All places, each after what comes first; [] if there is a circle."""
    try:
        return list(TopologicalSorter(dict(enumerate(first))).static_order())
    except CycleError:
        return []


def is_forward(first: list[set[int]]) -> bool:
    """Whether what comes first is written first."""
    return all(max(some, default=-1) < at for at, some in enumerate(first))


def result_of(content: str) -> Any:
    """The number of the call that gave this result, or "error"."""
    value = json.loads(content) if isinstance(content, str) else content
    return "error" if "error" in value else value["number"]


def outcomes(reply: Written) -> tuple[dict[int, Any], set[int]]:
    """What comes of each place, and which are not run because something that comes first fails."""
    calls = [made for each in reply for made in (each if isinstance(each, list) else [each])]
    first = first_of(reply)
    told: dict[int, Any] = {}
    skipped = set()
    for place in sequence_of(first):
        if any(told[other] == "error" for other in first[place]):
            skipped.add(place)
        told[place] = "error" if place in skipped or calls[place].fails else calls[place].number
    return told, skipped


def expected(reply: Written) -> list[Any]:
    """What the model must read of each call, or of a plan by step; if none waits in a circle."""
    told, _ = outcomes(reply)
    results = iter([told[place] for place in range(len(told))])
    return [_of_call(each, results) for each in reply]


def _of_call(each: Made | list[Made], results: Iterator[Any]) -> Any:
    if isinstance(each, Made):
        return next(results)
    steps = [next(results) for _ in each]
    return steps[0] if len(steps) == 1 else {f"s{at}": result for at, result in enumerate(steps)}


def read(each: Made | list[Made], content: str) -> Any:
    if isinstance(each, Made) or len(each) == 1:
        return result_of(content)
    return {name: result_of(result) for name, result in json.loads(content).items()}


def check_told(scene: Scene, agent: Agent, events: list[Any]) -> None:
    """Every call has one result, in call order, and whatever was started has ended."""
    contents = results_of(agent._backends.all[0].transport.requests[-1])
    assert len(contents) == len(scene.reply)
    if sequence_of(first_of(scene.reply)):
        assert [read(*pair) for pair in zip(scene.reply, contents, strict=True)] == expected(scene.reply)
    started = [event.call_id for event in events if isinstance(event, ToolStarted)]
    ended = [event.call_id for event in events if isinstance(event, ToolFinished)]
    assert len(set(started)) == len(started)
    assert len(set(ended)) == len(ended)
    assert set(started) <= set(ended)


def check_effects(world: World, reply_end: float) -> None:
    """What changes something runs once, when the reply is complete."""
    changed = [(at, made.number) for at, made in world.begun if not made.kind.read_only]
    assert len({number for _, number in changed}) == len(changed)
    assert all(at >= reply_end for at, _ in changed)


def check_order(scene: Scene, world: World) -> None:
    """What must not meet goes in the order in which it was written."""
    calls = scene.calls
    began = {made.number: at for at, (_, made) in enumerate(world.begun)}
    if len(set(calls)) == len(calls) and is_forward(first_of(scene.reply)):
        for one, other in combinations([made for made in calls if made.number in began], 2):
            assert not one.conflicts(other) or began[one.number] < began[other.number]


def check_time(scene: Scene, result: Any, begins: float = 0) -> None:
    """All of it has an owner, and it is no more than one after the other would take."""
    trace = result.trace
    assert trace.unattributed_ms == 0
    assert sum(trace.critical_ms().values()) == pytest.approx(trace.end_to_end_ms)
    assert begins + scene.ends <= trace.end_to_end_ms - TTFT
    assert trace.end_to_end_ms - TTFT <= begins + scene.ends + sum(made.ms for made in scene.calls)
    assert str(trace)


def least(scene: Scene, world: World) -> float:
    """When the last call ends at the earliest (ms): what comes first does so, all else runs side by side."""
    calls, first = scene.calls, first_of(scene.reply)
    ran = {made.number for _, made in world.begun}
    ends: dict[int, float] = {}
    for place in sequence_of(first):
        made = calls[place]
        works = made.number in ran and calls.index(made) == place
        begins = TTFT if made.kind.read_only else scene.ends
        ends[place] = max([begins, *[ends[other] for other in first[place]]]) + made.ms * works
    return max(ends.values(), default=0)


def exactly(scene: Scene) -> float | None:
    """When the last of some plain calls ends (ms), if all have a place and what comes first is written first."""
    calls, first = scene.calls, first_of(scene.reply)
    if len(set(calls)) < len(calls) or scene.places < len(calls) or not is_forward(first):
        return None
    _, skipped = outcomes(scene.reply)
    ends: list[float] = []
    early: list[bool] = []
    for place, made in enumerate(calls):
        met = [other for other in range(place) if calls[other].conflicts(made)]
        eager = made.kind.read_only and not made.kind.after and not made.kind.sequential
        early.append(eager and all(early[other] for other in met))
        sealed = scene.comes(head(place + 1, calls[place + 1].kind.name)) if place + 1 < len(calls) else scene.ends
        begins = sealed if early[place] else scene.ends
        works = 0 if place in skipped else made.ms
        ends.append(max([begins, *[ends[other] for other in (*met, *first[place])]]) + works)
    return max(ends)


async def events_of(agent: Agent) -> list[Any]:
    return [event async for event in agent.stream("go")]


def lived(scene: Scene, *before: RawReply) -> tuple[World, Agent, list[Any]]:
    """A run from its beginning to its end, in which nothing went wrong."""

    async def main() -> tuple[World, Agent, list[Any]]:
        world = World(scene.kinds, scene.places)
        agent = scene.agent(world, *before)
        events = await events_of(agent)
        assert len(asyncio.all_tasks()) == 1
        return world, agent, events

    world, agent, events = run_virtual(main())
    assert world.wrong == []
    check_told(scene, agent, events)
    return world, agent, events


# Runs

SEARCH = settings(max_examples=100, deadline=None)


@SEARCH
@given(scenes(plans=False))
def test_calls(scene: Scene) -> None:
    world, _, events = lived(scene)
    check_order(scene, world)
    check_effects(world, scene.ends)
    check_time(scene, events[-1].result)
    assert events[-1].result.trace.end_to_end_ms - TTFT >= least(scene, world)
    exact = exactly(scene)
    if exact is not None:
        assert events[-1].result.trace.end_to_end_ms == max(exact, scene.ends) + TTFT


@SEARCH
@given(scenes())
def test_plans_and_calls(scene: Scene) -> None:
    world, _, events = lived(scene)
    check_order(scene, world)
    check_effects(world, scene.ends)
    check_time(scene, events[-1].result)
    assert events[-1].result.trace.end_to_end_ms - TTFT >= least(scene, world)


@SEARCH
@given(scenes(), st.integers(1, 12))
def test_a_reply_that_comes_to_nothing_first(scene: Scene, heard: int) -> None:
    cut = scene.pieces[:-1][:heard]
    world, _, events = lived(scene, *[raw(*cut, end("length"))] * bool(cut))
    wasted = TTFT + scene.pace * len(cut) if cut else 0
    check_effects(world, wasted + scene.ends)
    check_time(scene, events[-1].result, wasted)


@pytest.mark.parametrize("lingers", [0, 40])
@SEARCH
@given(scenes(), st.integers(0, 900))
def test_cancelled_at_any_moment(lingers: int, scene: Scene, ms: int) -> None:
    """Tools may take a little to clean up; none begins, and all have ended after 100 ms."""

    async def main() -> World:
        world = World(scene.kinds, scene.places, lingers)
        task = asyncio.create_task(events_of(scene.agent(world)))
        await asyncio.sleep(ms / 1000)
        task.cancel()
        await asyncio.wait({task}, timeout=0.1)
        assert (len(asyncio.all_tasks()), world.running) == (1, [])
        return world

    world = run_virtual(main())
    assert world.wrong == []
    assert all(at <= ms for at, _ in world.begun)
    check_effects(world, scene.ends)


@pytest.mark.parametrize("lingers", [0, 40])
@SEARCH
@given(scenes(), st.lists(st.integers(0, 400), min_size=2, max_size=3), st.integers(0, 600))
def test_agents_that_share_while_one_is_cancelled(lingers: int, scene: Scene, starts: list[int], ms: int) -> None:
    """They have the same tools and their models give the same reply; what meets is none of the executor's business."""

    async def later(start: int, agent: Agent) -> list[Any]:
        await asyncio.sleep(start / 1000)
        return await events_of(agent)

    async def main() -> list[list[Any]]:
        world = World(scene.kinds, scene.places, lingers)
        tasks = [asyncio.create_task(later(start, agent)) for start, agent in zip(starts, agents(world), strict=True)]
        await asyncio.sleep(ms / 1000)
        tasks[0].cancel()
        done = await asyncio.gather(*tasks[1:])
        await asyncio.wait(tasks)
        assert (world.running, len(asyncio.all_tasks())) == ([], 1)
        return done

    def agents(world: World) -> list[Agent]:
        some.extend(scene.agent(world) for _ in starts)
        return some

    some: list[Agent] = []
    for agent, events in zip(some[1:], run_virtual(main()), strict=False):
        check_told(scene, agent, events)
