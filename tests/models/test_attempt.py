"""Whatever services do, under whatever policy: runs end well or with a typed error, in time, and leave nothing."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from asking import Asked, Plan, Wire, breaks, refuses, run, says, silent, virtually, writes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wire_frames import DONE, calls, data, end, item, text

from hotloop import Agent, Breaker, Budget, Model, Policy, tool
from hotloop.errors import ConnectError, HotloopError, TransportError
from hotloop.models.rejection import empty_answer, refused_tool
from hotloop.models.service import Service, service_of

UNSENT = (
    "is left alone for",
    "queue in front of the service",
    "cannot be asked in time",
    "could not be asked in the time",
)
FOREVER = 1000.0  # seconds after which every breaker has cooled and every hold is over


@tool(read_only=True)
async def look(number: int) -> str:
    """Look something up."""
    await asyncio.sleep(0.02)
    return f"{number} is there"


def looks(*numbers: int) -> list[bytes]:
    return [
        calls(item(f'{{"number": {number}}}', "look", id=f"x{number}", index=place))
        for place, number in enumerate(numbers)
    ]


UNREADABLE = {"error": {"code": "tool_use_failed", "message": "no", "failed_generation": "look{", "status_code": 400}}
SALVAGED = {"error": {"code": "tool_use_failed", "message": "no", "failed_generation": "Fine.", "status_code": 400}}
USAGE = {"usage": {"prompt_tokens": 10, "completion_tokens": 3}}
BODIES = [
    [text("All"), text(" is"), text(" well."), end("stop", **USAGE), DONE],
    [text("I cannot do that."), end("stop"), DONE],
    [text("cut"), text(" short")],
    [*looks(1, 2), end(), DONE],
    [text("Let me see."), *looks(3), end(), DONE],
    [*looks(1), end("length"), DONE],
    [end("stop"), DONE],
    [text("a"), data(UNREADABLE)],
    [data(SALVAGED)],
    [text("b"), data({"error": {"message": "inside", "code": 500}})],
    [text("c"), b"data: {oops\n\n"],
    [b"<html>"],
    [b'{"choices":[{"message":{"content":"whole"},"finish_reason":"stop"}]}'],
    [text("filtered"), end("content_filter"), DONE],
    [b": ping\n\n", text("d"), b": ping\n\n", end("stop")],
]
ERRORS = [TransportError("cut"), ConnectError("refused")]
times = st.sampled_from([0, 1, 50, 100, 101, 300, 800, 3000]) | st.integers(0, 1500)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    whole = writes(*draw(st.sampled_from(BODIES)), ttft=draw(times), tpot=draw(st.sampled_from([0, 0, 1, 10, 400])))
    match draw(st.integers(0, 6)):
        case 0:
            return breaks(draw(st.sampled_from(ERRORS)), draw(times), whole)
        case 1:
            return silent(whole, draw(st.integers(0, 3)))
        case 2:
            wait = draw(st.sampled_from(["", "0.05", "0.5", "3", "100"]))
            return refuses(draw(st.sampled_from([400, 401, 429, 500, 503])), draw(times), retry_after=wait)
        case 3:
            left = draw(st.sampled_from(["0", "1", "9"]))
            limits = {"x-ratelimit-limit-requests": "10", "x-ratelimit-remaining-requests": left}
            named = {**limits, "x-ratelimit-reset-requests": draw(st.sampled_from(["0s", "50ms", "5s"]))}
            return whole._replace(headers=tuple((name.encode(), value.encode()) for name, value in named.items()))
        case _:
            return whole


policies = st.builds(
    Policy,
    first_token=st.sampled_from([None, 0.1, 1.0]),
    stall=st.sampled_from([None, "learned", 0.05, 0.5]),
    total=st.sampled_from([0.5, 3.0, 60.0]),
    retries=st.integers(0, 3),
    backoff=st.sampled_from([0.0, 0.05, 0.2]),
    jitter=st.sampled_from([0.0, 0.5]),
    hedge=st.booleans(),
    hedge_share=st.sampled_from([0.05, 1.0]),
    breaker=st.sampled_from([None, Breaker(), Breaker(window=2, at_least=1, cool=0.3, probes=1)]),
    max_concurrent=st.sampled_from([None, 1, 2]),
    max_queued=st.sampled_from([0, 2, 1000]),
)


class Asking(Wire):
    """A service that follows these plans in turn, and is well once they are used up, or told to be."""

    def __init__(self, each: list[Plan], *, inside: bool) -> None:
        self.well = False
        super().__init__(
            lambda place, _: says("Well again.", ttft=10) if self.well or place >= len(each) else each[place],
            inside=inside,
        )


class World:
    """Some services, and agents that ask them in the same order."""

    def __init__(self, models: list[tuple[list[Plan], bool, Policy]], seconds: float | None, count: int) -> None:
        self.wires = [Asking(each, inside=inside) for each, inside, _ in models]
        self.models = [
            Model(name=f"m{place}", endpoint=wire, policy=policy)
            for place, (wire, (_, _, policy)) in enumerate(zip(self.wires, models, strict=True))
        ]
        budget = None if seconds is None else Budget(total=seconds, answer_reserve=seconds / 3)
        first, *others = self.models
        more: dict[str, Any] = {"fallback": others, "reject": [empty_answer, refused_tool]} if others else {}
        self.agents = [Agent(model=first, tools=[look], budget=budget, **more) for _ in range(count)]
        self.services = [service_of(model) for model in self.models]
        for service in self.services:
            _show_speed(service)

    async def run(self, runs: list[tuple[float, bool, float | None]]) -> list[Asked]:
        """Each as (when it begins, in the background, when it is cancelled), in milliseconds."""
        loop = asyncio.get_running_loop()
        tasks = []
        for agent, (at, background, cancel_at) in zip(self.agents, runs, strict=True):
            task = loop.create_task(_later(at, agent, background))
            tasks.append((task, None if cancel_at is None else loop.call_later(cancel_at / 1000, task.cancel)))
        found = await asyncio.gather(*(task for task, _ in tasks), return_exceptions=True)
        for _, timer in tasks:
            if timer is not None:
                timer.cancel()
        assert all(isinstance(each, Asked | asyncio.CancelledError) for each in found), found
        return [each for each in found if isinstance(each, Asked)]

    async def is_well_again(self) -> None:
        """Nothing that has happened keeps the next run from its answer."""
        for wire in self.wires:
            wire.well = True
        for _ in range(3):
            await asyncio.sleep(FOREVER)
            found = await run(self.agents[0])
            assert found.outcome.output == "Well again.", found.attempts


async def _later(at: float, agent: Agent, background: bool) -> Asked:
    await asyncio.sleep(at / 1000)
    return await run(agent, background=background)


def _show_speed(service: Service) -> None:
    """Let it be known well enough for second requests: 100 ms to a first token, whatever the prompt."""
    for size in [1 << bits for bits in range(16)] * 20:
        service.latencies.first_token(100_000_000, size)
        service.latencies.asked()


@given(
    st.lists(st.tuples(st.lists(plans(), max_size=6), st.booleans(), policies), min_size=1, max_size=3),
    st.sampled_from([None, None, 0.3, 2.0]),
    st.lists(st.tuples(times, st.booleans(), st.none() | st.none() | times), min_size=1, max_size=4),
)
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_every_run_ends_well_or_typed_in_time_and_leaves_nothing(
    models: list[Any], seconds: float | None, runs: list[Any]
) -> None:
    random.seed(0)
    world = World(models, seconds, len(runs))

    async def main() -> None:
        found = await world.run(runs)
        assert [service.admission.inside for service in world.services] == [0] * len(world.services)
        assert [service.admission.queued for service in world.services] == [0] * len(world.services)
        for each in found:
            assert isinstance(each.outcome, HotloopError) or each.kinds[-1] == "RunFinished"
            assert seconds is None or each.ms <= seconds * 1000 + 0.001, each.attempts
        if len(found) == len(runs):
            attempts = [each for one in found for each in one.trace.attempts]
            sent = [each.model for each in attempts if not any(why in each.reason for why in UNSENT)]
            assert sorted(sent) == sorted(f"m{place}" for place, wire in enumerate(world.wires) for _ in wire.times)
        await world.is_well_again()

    virtually(main(), *world.wires)
