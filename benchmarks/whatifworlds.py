"""Worlds for the benchmark of what-if: agents with their tools, services and traffic, on the virtual clock."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import msgspec

from hotloop import Agent, Cascade, Model, Policy, Router, Tool, tool
from hotloop.lab.profiles import Profile
from hotloop.lab.profiletable import PROFILES
from hotloop.lab.script import Call, Reply, Request
from hotloop.testing import SimulatedTransport, run_virtual
from hotloop.tools.plan.plan import PLAN
from hotloop.trace.importing.stages import UNKNOWN_FIRST
from hotloop.trace.ledger import CallFacts, Stage
from hotloop.trace.record import TraceRecord
from hotloop.trace.recording.recorder import recorder

RUNS = 100
_SENTENCE = "the order was packed on Monday and left our house by van so it should be with you before the week is over"
_WORDS = _SENTENCE.split()
_DEFAULTS = Policy()


@dataclass(frozen=True)
class Work:
    """A tool: its median time in seconds, how that varies (sigma of its logarithm), its stragglers, its result's bytes.

    A share `straggle` of its calls takes `slower` times as long. A share `hits` of them is known already.
    """

    name: str
    seconds: float
    sigma: float = 0.25
    straggle: float = 0.0
    slower: float = 10.0
    size: int = 60
    hits: float = 0.0
    options: dict[str, Any] = field(default_factory=lambda: {"read_only": True})

    def took(self, key: str) -> float:
        """How long the call with this argument takes: the same whenever it is made."""
        draw = random.Random(f"{self.name} {key}")
        if draw.random() < self.hits:
            return 0.0
        seconds = self.seconds * draw.lognormvariate(0.0, self.sigma)
        return seconds * self.slower if draw.random() < self.straggle else seconds


@dataclass(frozen=True)
class Say:
    """A reply: calls, each a tool's name and its argument, after `before` words, or so many words."""

    calls: tuple[tuple[str, str], ...] = ()
    words: int = 30
    before: int = 0


Talk = Callable[[int, random.Random], Sequence[Say]]
"""The replies of the run with this number."""


@dataclass(frozen=True)
class World:
    """An agent at work. `pause` is the mean time between the starts of runs (0: one after the other), in seconds.

    Runs are those of `sessions` conversations, one after the other in each, if there are any. `second` answers where
    the first service fails, or, with a `cascade`, where that has nothing to say: to every third request. `ahead` is the
    share of calls that somebody begins with the request of their turn. Of the runs the first `warm` do not count.
    """

    name: str
    profile: str | Profile
    tools: tuple[Work, ...]
    talk: Talk
    runs: int = RUNS
    instructions: int = 400
    prompt: tuple[int, int] = (20, 60)
    pause: float = 0.0
    sessions: int = 0
    faults: str = ""
    second: str | Profile = ""
    cascade: bool = False
    ahead: float = 0.0
    warm: int = 0
    policy: Policy = _DEFAULTS
    options: dict[str, Any] = field(default_factory=dict)

    def but(self, **changes: Any) -> World:
        """The world with these changes."""
        return replace(self, **changes)

    def retooled(self, **changes: Any) -> World:
        """The world with these changes to all of its tools."""
        return self.but(tools=tuple(replace(each, **changes) for each in self.tools))

    def tool(self, name: str, **changes: Any) -> World:
        """The world with these changes to one of its tools."""
        return self.but(tools=tuple(replace(each, **changes) if each.name == name else each for each in self.tools))


class _Keep:
    """An exporter that keeps records."""

    def __init__(self) -> None:
        self.records: list[TraceRecord] = []

    def export(self, records: Sequence[TraceRecord]) -> None:
        self.records += records

    def close(self) -> None:
        pass


def result_of(key: str, size: int) -> str:
    """What a tool whose results have about so many bytes gives for this argument."""
    return _text(math.ceil(size / 6), random.Random(key))


def run_world(world: World, seed: int) -> list[TraceRecord]:
    """The records of its runs, in the order of their starts; `seed` decides what is left to chance at services."""
    keep = _Keep()
    run_virtual(_Run(world, seed, keep).all())
    if not recorder.flush(30):
        raise RuntimeError("the runs were not recorded")
    in_order = sorted(keep.records, key=lambda record: record.start)[world.warm :]
    return [msgspec.structs.replace(record, started=record.start / 1e9) for record in in_order]


def as_imported(record: TraceRecord) -> TraceRecord:
    """The record as another framework's spans would tell of it: one stage for each reply and each tool, and no more."""
    stages: list[Stage] = []
    for stage in record.stages:
        if stage.kind in ("prefill", "decode"):
            before = (
                stages.pop()
                if stages and not stage.lane and stages[-1].end == stage.start and stages[-1].note
                else stage
            )
            stages.append(Stage("decode", before.start, stage.end, stage.turn, note=UNKNOWN_FIRST))
        elif stage.kind == "tool":
            stages.append(Stage("tool", stage.start, stage.end, stage.turn, stage.lane, stage.name))
    for turn in record.turns:
        turn.calls = [CallFacts(call.call_id, call.name, call.outcome, lane=call.lane) for call in turn.calls]
    changes = {"source": "other", "stages": stages, "facts": {}, "tools": {}}
    return msgspec.structs.replace(record, **changes)


class _Run:
    """A world while it runs."""

    def __init__(self, world: World, seed: int, keep: _Keep) -> None:
        self._world = world
        self._begun: dict[tuple[str, str], asyncio.Task[None]] = {}
        first = self._model("first", world.profile, seed, world.faults)
        models: dict[str, Any] = {"model": first}
        if world.second:
            second = self._model("second", world.second, seed + 1)
            router = Router(models={"first": first, "second": second}, cascade=Cascade(), default="first")
            models = {"model": router} if world.cascade else {"model": first, "fallback": [second]}
        self._agent = Agent(
            **models,
            name=world.name,
            instructions=_text(world.instructions, random.Random("instructions")),
            tools=[self._tool(each) for each in world.tools],
            traces=False,
            exporters=[keep],
            sessions=":memory:" if world.sessions else None,
            **world.options,
        )

    def _model(self, name: str, profile: str | Profile, seed: int, faults: str = "") -> Model:
        answer = partial(self._answer, name)
        service = SimulatedTransport(answer, profile=_profile(profile), seed=seed, faults=faults)
        return Model(name=name, endpoint=service, policy=self._world.policy)

    async def all(self) -> None:
        """All runs, as they come."""
        world = self._world
        draw = random.Random(world.name)
        count = world.runs + world.warm
        async with self._agent:
            if world.sessions:
                await asyncio.gather(
                    *(self._session(place, count // world.sessions) for place in range(world.sessions))
                )
            elif not world.pause:
                for number in range(count):
                    await self._agent.run(self._prompt(number))
            else:
                runs = []
                for number in range(count):
                    runs.append(asyncio.create_task(self._agent.run(self._prompt(number))))
                    await asyncio.sleep(draw.expovariate(1 / world.pause))
                await asyncio.gather(*runs)

    async def _session(self, place: int, runs: int) -> None:
        session = self._agent.session(f"session-{place}")
        draw = random.Random(f"session {place}")
        await asyncio.sleep(draw.random() * self._world.pause)
        for number in range(place * runs, (place + 1) * runs):
            await session.run(self._prompt(number))
            await asyncio.sleep(draw.expovariate(1 / self._world.pause) if self._world.pause else 0.1)

    def _prompt(self, number: int) -> str:
        draw = random.Random(f"prompt {number}")
        return f"Request {number}: {_text(draw.randint(*self._world.prompt), draw)}?"

    def _answer(self, model: str, request: Request) -> Reply:
        """What a model says: the reply at the place that its last request has reached, as a plan if it may."""
        messages = request["messages"]
        asked = max(place for place, each in enumerate(messages) if each["role"] == "user")
        words = messages[asked]["content"].split()
        if words[0] != "Request":
            return Reply("So far: " + _text(220, random.Random("summary")))
        number = int(words[1].rstrip(":"))
        if self._world.cascade and model == "first" and number % 3 == 0:
            return Reply("I am sorry, but I cannot help with that.")
        script = list(self._world.talk(number, random.Random(f"talk {number}")))
        turn = sum(each["role"] == "assistant" for each in messages[asked:])
        if any(offered["function"]["name"] == PLAN for offered in request.get("tools", ())):
            script = _planned(script)
        said = script[turn]
        if self._world.ahead:
            self._begin(said, number)
        if not said.calls:
            return Reply(_text(said.words, random.Random(f"answer {number}")))
        calls = tuple(_call(name, key) for name, key in said.calls)
        return Reply(_text(said.before, random.Random(f"before {number}")), calls)

    def _begin(self, said: Say, number: int) -> None:
        """Begin some of the calls that are going to be written."""
        for name, key in said.calls:
            if random.Random(f"ahead {number} {name} {key}").random() < self._world.ahead:
                work = next(each for each in self._world.tools if each.name == name)
                self._begun[name, key] = asyncio.create_task(asyncio.sleep(work.took(key)))

    def _tool(self, work: Work) -> Tool:
        async def answer(key: str) -> str:
            """Look something up."""
            if (begun := self._begun.pop((work.name, key), None)) is not None:
                await begun
            else:
                await asyncio.sleep(work.took(key))
            return result_of(key, work.size)

        return tool(answer, name=work.name, **work.options)


def _planned(script: list[Say]) -> list[Say]:
    """The same with all calls in one reply, the steps of a plan."""
    acting = [said for said in script if said.calls]
    steps, before = [], []
    for said in acting:
        here = []
        for name, key in said.calls:
            number = f"s{len(steps) + len(here) + 1}"
            value: Any = {"$ref": f"{before[0]}"} if before else key
            here.append({"id": number, "tool": name, "arguments": {"key": value}})
        before = [step["id"] for step in here]
        steps += here
    plan = msgspec.json.encode({"steps": steps}).decode()
    return [Say(calls=((PLAN, plan),)), *[said for said in script if not said.calls]]


def _call(name: str, key: str) -> Call:
    return Call(name, key if name == PLAN else msgspec.json.encode({"key": key}).decode())


def _profile(which: str | Profile) -> Profile:
    return which if isinstance(which, Profile) else PROFILES[which]


def _text(words: int, draw: random.Random) -> str:
    return " ".join(draw.choices(_WORDS, k=words))
