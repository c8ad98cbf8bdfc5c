"""Records of runs against a model that keeps exact times, and tools that take so long; times in milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from hotloop import Agent, tool
from hotloop.lab.profiles import Profile
from hotloop.lab.script import AnyReply, call, per_conversation, say
from hotloop.testing import ScriptedModel, SimulatedTransport, run_virtual
from hotloop.tools.defining.tool import Tool
from hotloop.trace.record import TraceRecord
from hotloop.trace.recording.recorder import recorder
from hotloop.units import NS_PER_MS

TTFT, TPOT = 100, 10


class Kept:
    """An exporter that keeps records."""

    def __init__(self) -> None:
        self.records: list[TraceRecord] = []

    def export(self, records: Sequence[TraceRecord]) -> None:
        self.records += records

    def close(self) -> None:
        pass


def calls_of(*names: str, key: str = "1234") -> list[Any]:
    """A reply that calls these tools: each call is five tokens, a head and four pieces of its argument."""
    return [call(name, key=key) for name in names]


def made_tool(name: str, took: float, **options: Any) -> Tool:
    """A tool that takes so long."""

    async def answer(key: str) -> str:
        """Look something up."""
        await asyncio.sleep(took / 1000)
        return "found"

    return tool(answer, name=name, **({"read_only": True} | options))


def runs_of(
    tools: Mapping[str, float] | Sequence[Tool],
    replies: Sequence[AnyReply],
    *,
    runs: int = 1,
    ttft: float = TTFT,
    tpot: float = TPOT,
    at: Profile | None = None,
    **options: Any,
) -> list[TraceRecord]:
    """The records of an agent's runs, one after the other, `at` such a service; `started` is virtual time, too."""
    made = [made_tool(name, took) for name, took in tools.items()] if isinstance(tools, Mapping) else list(tools)
    kept = Kept()

    async def all_runs() -> None:
        answer = per_conversation(replies)
        exact = ScriptedModel(answer, ttft=ttft / 1000, tpot=tpot / 1000)
        model = exact if at is None else SimulatedTransport(answer, profile=at)
        async with Agent(
            name="lab", model="m", endpoint=model, tools=made, traces=False, exporters=[kept], **options
        ) as agent:
            for number in range(runs):
                await agent.run(f"Question {number}")

    run_virtual(all_runs())
    assert recorder.flush(10)
    for record in kept.records:
        record.started = record.start / 1e9
    return kept.records


def run_of_two(*, words: int = 3, **options: Any) -> TraceRecord:
    """A run with two calls in its first reply (ten tokens, done after 190 ms) and an answer of three words (120 ms).

    The call of "fast" (50 ms) is sealed by the sixth token, at 150 ms, that of "slow" (80 ms) at the reply's end.
    """
    replies = [calls_of("fast", "slow"), say(" ".join(["word"] * words))]
    return runs_of({"fast": 50, "slow": 80}, replies, **options)[0]


def in_ms(nanoseconds: float) -> float:
    """For assertions."""
    return nanoseconds / NS_PER_MS
