"""Plays a setup in virtual time: its runs, as they are recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any

import msgspec

from hotloop.agent import Agent
from hotloop.errors import HotloopError, ToolError
from hotloop.lab.faulty.setup import Lookup, Setup
from hotloop.lab.faulty.voice import NEIGHBOUR, Voice, result_of, subjects, words
from hotloop.lab.faulty.wires import Connecting
from hotloop.lab.simtransport import SimulatedTransport
from hotloop.lab.virtual import VirtualLoop, run_virtual
from hotloop.models.model import Model
from hotloop.models.policy.policy import Policy
from hotloop.models.rejection import empty_answer
from hotloop.models.reply import Reply
from hotloop.models.transport import Throttle, Transport
from hotloop.tools.defining.define import tool
from hotloop.tools.defining.tool import Tool
from hotloop.trace.record import TraceRecord
from hotloop.trace.recording.recorder import recorder

_TOLD = 30.0  # seconds for all records to come
_BREATH = 0.05  # seconds between two texts that a neighbour asks for, who may be refused


def play(setup: Setup) -> list[TraceRecord]:
    """The records of a setup's runs, of those that fail as well. To be called once at a time."""
    run_virtual(_Play(setup).all())
    recorder.flush(_TOLD)
    return _kept.take()


class _Kept:
    """An `Exporter` that keeps records in memory until they are taken."""

    def __init__(self) -> None:
        self._records: list[TraceRecord] = []

    def export(self, records: Sequence[TraceRecord]) -> None:
        self._records += records

    def close(self) -> None: ...

    def take(self) -> list[TraceRecord]:
        """The records that have come."""
        records, self._records = self._records, []
        return records


_kept = _Kept()  # one for all setups: recorders never let go of an exporter


class _Play:
    """One setup at work."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._agents: list[Agent] = []
        self._next = 0
        self._service = SimulatedTransport(Voice(setup), profile=setup.profile, seed=setup.seed, **setup.service)
        wire: Transport = self._service
        for around in setup.wires:
            wire = around(wire)
        self._wire = Connecting(wire, setup.opening, kept=setup.kept)
        self._neighbours: list[asyncio.Task[None]] = []

    async def all(self) -> None:
        """Ask all questions."""
        try:
            await asyncio.gather(*(self._ask_on(place) for place in range(self._setup.at_once)))
        finally:
            self._send_away()
            for agent in self._agents:
                await agent.aclose()

    async def _ask_on(self, place: int) -> None:
        """Ask one question after the other, until there is none left."""
        agent = self._agent(0)
        while self._next < self._setup.runs:
            run, self._next = self._next, self._next + 1
            self._invite(run)
            if self._setup.clock:
                agent = self._agent(run)
            asking = agent.session(f"desk {place}") if self._setup.session else agent
            with suppress(HotloopError):  # it is in the record
                await asking.run(self._question(run), trace_id=f"{self._setup.name}-{self._setup.seed}-{run}")

    def _agent(self, run: int) -> Agent:
        setup = self._setup
        front = f"It is 2026-11-30 10:{run % 60:02d}:17. " if setup.clock else ""
        agent = Agent(
            model="simulated",
            endpoint=self._wire,
            name=setup.name,
            instructions=front + words(setup.name, setup.instructions),
            tools=[_tool(setup, name) for name in setup.tools],
            policy=Policy(breaker=None, **setup.policy),
            max_turns=30,
            **self._checked() if setup.blocked else {},
            sessions=":memory:",
            traces=False,
            exporters=[_kept],
            **setup.agent,
        )
        self._agents.append(agent)
        return agent

    def _question(self, run: int) -> str:
        setup = self._setup
        case = setup.case(run)
        document = words(f"document {case}", setup.length("document", case, setup.document))
        return f"Case {case}: {', '.join(subjects(setup, case))}. {document}"

    def _checked(self) -> dict[str, Any]:
        """Options of an agent whose replies are looked at by code of its own, which keeps the event loop busy."""
        spare = Model(name="spare", endpoint=self._wire)
        return {"reject": [empty_answer, self._block], "fallback": [spare]}

    def _block(self, reply: Reply) -> str:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.spend(self._setup.blocked)
        return ""

    def _invite(self, run: int) -> None:
        """Have neighbours there while the middle third of the runs is under way."""
        if run * 3 // self._setup.runs != 1:
            self._send_away()
        elif not self._neighbours:
            tell = msgspec.json.encode({"messages": [{"role": "user", "content": NEIGHBOUR}]})
            self._neighbours = [asyncio.create_task(self._chat(tell)) for _ in range(self._setup.neighbours)]

    async def _chat(self, body: bytes) -> None:
        while True:
            await self._service.send(body, _Nobody())
            await asyncio.sleep(_BREATH)

    def _send_away(self) -> None:
        for each in self._neighbours:
            each.cancel()
        self._neighbours = []


class _Nobody:
    """A `Receiver` that does not listen."""

    def sent(self, connected: bool, throttle: Throttle | None) -> None: ...

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None: ...

    def data(self, chunk: bytes) -> bool:
        return False


def _tool(setup: Setup, name: str) -> Tool:
    lookup = setup.tools[name]

    async def look(subject: str) -> dict[str, Any]:
        await asyncio.sleep(_seconds(lookup, f"{setup.seed} {name} {subject}"))
        if Random(f"{setup.seed} {name} {subject} fails").random() < lookup.fails:
            raise ToolError(f"Nothing can be said of {subject} now.")
        return result_of(setup, name, subject)

    options = {"read_only": True, "timeout": 20.0} | lookup.options
    return tool(look, name=name, description=f"Looks for the {name} of a subject. {words(name, 12)}.", **options)


def _seconds(lookup: Lookup, seed: str) -> float:
    chance = Random(seed)
    usual = lookup.seconds * chance.lognormvariate(0.0, lookup.spread)
    return usual * (lookup.tail if chance.random() < 0.1 else 1.0)
