"""What all agents of a process know of one service, and what they do about it: seen through agents."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Coroutine
from typing import Any

import pytest
from asking import PROMPT, Asked, Plan, Wire, asked, breaks, client, refuses, run, says, silent, think, virtually

from hotloop import Agent, Breaker, Budget, Model, Policy
from hotloop.errors import CircuitOpen, Overloaded, ReplyTimeout, ServiceBusy, TransportError
from hotloop.models.ask import Ask
from hotloop.models.service import service_of
from hotloop.models.transport import nobody
from hotloop.testing import run_virtual
from hotloop.trace.ledger import Ledger
from hotloop.units import clock

BUSY = "failed: The service answered 503: busy."
OPENS_AT_FOUR = Breaker(window=4, at_least=4, cool=10.0, probes=2)


def agent(wire: Wire, *, budget: Budget | None = None, **policy: Any) -> Agent:
    settings = Policy(**{"jitter": 0.0, "retries": 0} | policy)
    return Agent(model=Model(name="m", endpoint=wire, policy=settings), budget=budget)


def left_alone(ms: str, told: str = "4 of the last 4 requests failed") -> str:
    return f"failed: Wire is left alone for {ms} more: {told}."


# The circuit breaker


def test_a_service_that_keeps_failing_is_left_alone_and_tried_again() -> None:
    wire = Wire([*[refuses(at=20)] * 4, *[says("Hello")] * 3])
    one, other = (agent(wire, breaker=OPENS_AT_FOUR) for _ in range(2))

    async def main() -> list[list[str]]:
        found = [(await run(each)).attempts for each in (one, other, one, other)]
        found.append((await run(one)).attempts)
        await asyncio.sleep(9.999)
        found.append((await run(other)).attempts)
        await asyncio.sleep(0.001)
        probes = await asyncio.gather(run(one), run(other), run(one))
        return found + [each.attempts for each in probes] + [(await run(other)).attempts]

    closed = [[f"first m 0-20 {BUSY}"]] * 4
    rested = [[f"first m 0-0 {left_alone('10 s')}"], [f"first m 0-0 {left_alone('1.00 ms')}"]]
    ok = ["first m 0-110 ok"]
    assert virtually(main(), wire) == [*closed, *rested, ok, ok, [f"first m 0-0 {left_alone('10 s')}"], ok]
    assert len(wire.times) == 7


def test_nothing_is_sent_to_it_and_the_error_says_when() -> None:
    wire = Wire([refuses()] * 4)
    asking = agent(wire, breaker=OPENS_AT_FOUR)

    async def main() -> Asked:
        for _ in range(4):
            assert isinstance((await run(asking)).outcome, Overloaded)
        await asyncio.sleep(4)
        return await run(asking)

    found = virtually(main(), wire)
    assert isinstance(found.outcome, CircuitOpen)
    assert (found.outcome.retry_after, found.ms, len(wire.times)) == (6.0, 0.0, 4)


@pytest.mark.parametrize("policy", [{}, {"max_concurrent": 1}, {"hedge": True}])
def test_a_probe_that_is_cancelled_makes_room_for_another(policy: dict[str, Any]) -> None:
    wire = Wire([*[refuses()] * 4, says("Hello"), says("Hello"), says("Hello")])
    asking = client(wire, retries=0, breaker=Breaker(window=4, at_least=4, cool=10.0, probes=1), **policy)

    async def main() -> list[str]:
        for _ in range(4):
            await think(asking)
        await asyncio.sleep(10)
        cancelled = asyncio.create_task(think(asking, cancel_at=50))
        await asyncio.sleep(0.02)
        found = [] if policy.get("max_concurrent") else [await think(asking)]  # the one probe is under way
        found += [await cancelled, await think(asking), await think(asking)]
        return [each.story for each in found]

    assert virtually(main(), wire)[-3:] == ["first cancelled", "first ok", "first ok"]


def test_who_waited_for_a_place_does_not_go_to_a_service_that_was_closed_off_meanwhile() -> None:
    wire = Wire([refuses(at=100)] * 20)
    asking = client(wire, retries=0, max_concurrent=2, breaker=OPENS_AT_FOUR)

    async def main() -> list[Asked]:
        return await asyncio.gather(*(think(asking) for _ in range(10)))

    found = virtually(main(), wire)
    assert [type(each.outcome) for each in found] == [Overloaded] * 4 + [CircuitOpen] * 6
    assert wire.times == [0, 0, 100, 100]
    assert {each.ms for each in found[4:]} == {200.0}
    assert found[-1].stages == ["queue 200 a place at the service"]
    assert asking.service.admission.inside == 0


def test_slow_first_tokens_close_it_off_too() -> None:
    wire = Wire([says("Hello", ttft=600)] * 4)
    asking = agent(wire, breaker=Breaker(window=4, at_least=4, slow_call=0.5, slow_rate=1.0))

    async def main() -> list[str]:
        return [(await run(asking)).story for _ in range(4)] + (await run(asking)).attempts

    told = "4 of the last 4 requests took more than 500 ms to their first token"
    assert virtually(main(), wire) == ["first ok"] * 4 + [f"first m 0-0 {left_alone('10 s', told)}"]


@pytest.mark.parametrize(
    ("plan", "outcome"),
    [
        (says("a b c d", ttft=200, tpot=200), ReplyTimeout),  # it was answering: we had no time for it
        (refuses(429), Exception),  # that is for the rate limits
        (refuses(400), Exception),
    ],
)
def test_what_is_not_its_fault_does_not_close_it_off(plan: Plan, outcome: type[Exception]) -> None:
    wire = Wire([plan] * 10)
    asking = agent(wire, breaker=OPENS_AT_FOUR, budget=Budget(total=0.5, answer_reserve=0.1))

    async def main() -> list[Any]:
        return [(await run(asking)).outcome for _ in range(10)]

    found = virtually(main(), wire)
    assert all(isinstance(each, outcome) and not isinstance(each, CircuitOpen) for each in found)


def test_a_service_that_says_nothing_for_long_is_closed_off_though_it_was_we_who_gave_up() -> None:
    wire = Wire([silent()] * 4)
    asking = agent(wire, breaker=OPENS_AT_FOUR, budget=Budget(total=2.5, answer_reserve=0.1))

    async def main() -> list[str]:
        return [type((await run(asking)).outcome).__name__ for _ in range(5)]

    assert virtually(main(), wire) == ["ReplyTimeout"] * 4 + ["CircuitOpen"]


def test_runs_in_a_hurry_do_not_close_a_service_off_for_others() -> None:
    """It takes 400 ms to its first token; who gives it 300 has no reason to complain."""
    wire = Wire([says("Hello", ttft=400)] * 20)
    hurried = agent(wire, breaker=OPENS_AT_FOUR, budget=Budget(total=0.3, answer_reserve=0.1))
    patient = agent(wire, breaker=OPENS_AT_FOUR)

    async def main() -> list[str]:
        outcomes = [type((await run(hurried)).outcome).__name__ for _ in range(12)]
        return [*dict.fromkeys(outcomes), (await run(patient)).story]

    assert virtually(main(), wire) == ["ReplyTimeout", "first ok"]


def test_a_reply_that_broke_while_we_had_little_time_left_is_its_fault() -> None:
    plan = breaks(TransportError("cut"), 450, says("a " * 50, ttft=100))
    wire = Wire([plan] * 4)
    asking = agent(wire, breaker=OPENS_AT_FOUR, stall=0.4, budget=Budget(total=0.5, answer_reserve=0.1))

    async def main() -> list[str]:
        return [type((await run(asking)).outcome).__name__ for _ in range(5)]

    assert virtually(main(), wire) == ["TransportError"] * 4 + ["CircuitOpen"]


def test_who_waits_for_a_place_keeps_nobody_from_trying() -> None:
    """Two may try whether it is back; one of them waits for a place and gives up."""
    wire = Wire([says("a b", tpot=15_000), *[refuses()] * 4, says("Hello", 500), says("Hello")])
    asking = client(wire, retries=0, max_concurrent=2, breaker=OPENS_AT_FOUR, stall=None)

    async def main() -> list[str]:
        long = asyncio.create_task(think(asking))
        await asyncio.sleep(0)
        for _ in range(4):
            await think(asking)
        await asyncio.sleep(10)
        tries = await asyncio.gather(think(asking), think(asking, cancel_at=100), _after(0.2, think(asking)))
        return [each.attempts[0] for each in tries] + [(await long).story]

    assert virtually(main(), wire) == [
        "first m 0-510 ok",
        "first m 0-100 cancelled",
        "first m 310-420 ok",
        "first ok",
    ]


async def _after(seconds: float, asking: Coroutine[Any, Any, Asked]) -> Asked:
    await asyncio.sleep(seconds)
    return await asking


# Who shares it


def test_agents_share_a_service_that_they_name_alike() -> None:
    async def main() -> None:
        wire = Wire([])
        url = "http://localhost:9/v1"
        model = Model(name="m", endpoint=url, policy=Policy(retries=1))
        for same in (url, f"{url}/", f"{url}/chat/completions"):
            assert service_of(Model(name="m", endpoint=same, policy=Policy(retries=1))) is service_of(model)
        by_wire = Model(name="m", endpoint=wire)
        assert service_of(by_wire) is service_of(Model(name="m", endpoint=wire))
        kept = service_of(model), service_of(by_wire)
        assert service_of(Model(name="m", endpoint=url, policy=Policy(retries=2, total=9.0, hedge=True))) in kept
        for other in (
            {"name": "other"},
            {"endpoint": "http://localhost:9/v2"},
            {"endpoint": "https://localhost:9/v1"},
            {"api_key": "another"},
            {"headers": {"x-team": "b"}},
            {"dialect": "vllm"},
            {"policy": Policy(retries=1, max_concurrent=3)},
            {"policy": Policy(retries=1, breaker=None)},
        ):
            given = {"name": "m", "endpoint": url, "policy": Policy(retries=1)} | other
            assert service_of(Model(**given)) not in kept

    run_virtual(main())


def test_a_key_from_the_environment_is_the_same_key(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "https://api.openai.com/v1"
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    service = service_of(Model(name="m", endpoint=url))
    assert service_of(Model(name="m", endpoint=url, api_key="secret")) is service
    monkeypatch.setenv("OPENAI_API_KEY", "another")
    assert service_of(Model(name="m", endpoint=url)) is not service


def test_threads_get_the_same_one() -> None:
    wire, found, at_once = Wire([]), [], threading.Barrier(8)

    def get() -> None:
        at_once.wait()
        found.append(service_of(Model(name="m", endpoint=wire)))

    threads = [threading.Thread(target=get) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1


def test_a_service_that_nobody_asks_any_longer_is_forgotten() -> None:
    wire = Wire([*[refuses()] * 4, says("Hello")])

    async def main() -> list[str]:
        asking = agent(wire, breaker=OPENS_AT_FOUR)
        found = [(await run(asking)).story for _ in range(5)]
        del asking
        wire.throttles.clear()  # who had these replies knows its agent
        gc.collect()
        return [*found, (await run(agent(wire, breaker=OPENS_AT_FOUR))).story]

    assert virtually(main(), wire) == ["first failed"] * 5 + ["first ok"]


@pytest.mark.parametrize(
    ("policy", "story"),
    [({"total": 50.0}, "first failed"), ({"breaker": Breaker(window=9, at_least=4)}, "first ok")],
    ids=["more patient", "another breaker"],
)
def test_agents_share_a_service_unless_they_bound_it_otherwise(policy: dict[str, Any], story: str) -> None:
    wire = Wire([*[refuses()] * 4, says("Hello")])

    async def main() -> list[str]:
        one, other = agent(wire, breaker=OPENS_AT_FOUR), agent(wire, **{"breaker": OPENS_AT_FOUR} | policy)
        return [(await run(one)).story for _ in range(4)] + [(await run(other)).story]

    assert virtually(main(), wire)[-1] == story


# The queue in front of it


def limits(left: int, seconds: str, limit: int = 10) -> dict[str, str]:
    names = {"limit": f"{limit}", "remaining": f"{left}", "reset": seconds}
    return {f"x-ratelimit-{name}-requests": value for name, value in names.items()}


def test_what_one_agent_was_told_of_limits_makes_the_other_wait() -> None:
    wire = Wire([says("Hello", headers=limits(0, "2s")), says("Hello"), says("Hello")])
    one, other = agent(wire), agent(wire)

    async def main() -> list[Asked]:
        return [await run(one), await run(other), await run(one)]

    first, second, third = virtually(main(), wire)
    assert (first.attempts, first.stages) == (["first m 0-110 ok"], ["prefill 100", "decode 10"])
    # learned when the first token came: one of ten comes back every 200 ms
    assert second.attempts == ["first m 190-300 ok"]
    queued = "a place at the service: its rate limit (requests) is used up"
    assert second.stages == [f"queue 190 {queued}", "prefill 100", "decode 10"]
    assert third.stages[0] == f"queue 90 {queued}"


def test_a_run_whose_time_is_too_short_for_the_wait_ends_at_once() -> None:
    wire = Wire([says("Hello", headers=limits(0, "20s")), says("Hello")])

    patient, hasty = agent(wire), agent(wire, budget=Budget(total=1.0, answer_reserve=0.5))

    async def main() -> Asked:
        await run(patient)
        return await run(hasty)

    found = virtually(main(), wire)
    assert (type(found.outcome), found.ms, len(wire.times)) == (ServiceBusy, 0.0, 1)
    assert found.attempts[0].startswith("first m 0-0 failed: The service cannot be asked in time: its rate limit")


def test_places_are_waited_for_in_the_queue_foreground_first() -> None:
    wire = Wire([says("Hello")] * 4)
    asking = agent(wire, max_concurrent=1)

    async def main() -> list[Asked]:
        return await asyncio.gather(*(run(asking, background=back) for back in (True, True, False, False)))

    found = virtually(main(), wire)
    queued = ["", "queue 330 a place at the service", "queue 110 a place at the service"]
    assert [each.stages[0] for each in found[:3]] == ["prefill 100", *queued[1:]]
    assert [each.attempts for each in found] == [[f"first m {at}-{at + 110} ok"] for at in (0, 330, 110, 220)]


def test_a_full_queue_turns_the_next_away() -> None:
    wire = Wire([says("Hello")] * 2)
    asking = agent(wire, max_concurrent=1, max_queued=1)

    async def main() -> list[Asked]:
        return await asyncio.gather(*(run(asking) for _ in range(3)))

    found = virtually(main(), wire)
    assert [each.story for each in found] == ["first ok", "first ok", "first failed"]
    assert (type(found[2].outcome), found[2].ms) == (ServiceBusy, 0.0)


def test_who_is_cancelled_in_the_queue_takes_no_place() -> None:
    wire = Wire([says("Hello")] * 2)
    asking = client(wire, max_concurrent=1)

    async def main() -> list[Asked]:
        return await asyncio.gather(think(asking), think(asking, cancel_at=50), think(asking))

    found = virtually(main(), wire)
    assert [each.attempts[0] for each in found] == [
        "first m 0-110 ok",
        "first m 0-50 cancelled",
        "first m 110-220 ok",
    ]
    assert found[1].stages == ["queue 50 a place at the service"]
    assert asking.service.admission.inside == 0


def test_the_wait_and_the_reply_have_a_limit_each() -> None:
    """A reply may take its whole time, however long it was waited for a place."""
    wire = Wire([says("Hello", ttft=900), says("Hello", ttft=900)])
    asking = client(wire, max_concurrent=1, total=1.0)

    async def main() -> list[Asked]:
        return await asyncio.gather(think(asking), think(asking))

    assert [each.attempts for each in virtually(main(), wire)] == [["first m 0-910 ok"], ["first m 910-1820 ok"]]


def test_how_long_one_is_asked_to_stay_away_holds_for_all() -> None:
    wire = Wire([refuses(429, retry_after="1"), says("Hello"), says("Hello")])
    asking = client(wire, retries=1)

    async def main() -> list[Asked]:
        first = asyncio.create_task(think(asking))
        await asyncio.sleep(0.4)
        return [await think(asking), await first]

    second, first = virtually(main(), wire)
    assert first.attempts == [
        "first m 0-0 failed: The service answered 429: busy. It asks to wait 1 s.",
        "retry m 1000-1110 ok",
    ]
    assert second.attempts == ["first m 600-710 ok"]
    assert second.stages[0] == "queue 600 a place at the service: the service asked to be left alone"


def test_a_wait_for_a_place_and_one_for_a_limit_are_told_apart() -> None:
    wire = Wire([says("Hello", ttft=200), refuses(429, retry_after="1"), says("Hello")])
    asking = agent(wire, max_concurrent=1)

    async def main() -> list[Asked]:
        return await asyncio.gather(*(run(asking) for _ in range(3)))

    *_, third = virtually(main(), wire)
    place = "a place at the service"
    assert third.stages[:2] == [f"queue 210 {place}", f"queue 1000 {place}: the service asked to be left alone"]


# What an attempt is noted as


class Odd(Wire):
    """A transport that raises what it may not."""

    def __init__(self, error: BaseException) -> None:
        super().__init__([])
        self.error = error

    async def send(self, body: bytes, receiver: Any) -> None:
        await asyncio.sleep(0.1)
        raise self.error


@pytest.mark.parametrize("error", [RuntimeError("a bug"), TimeoutError("of its own"), OSError("broken")])
def test_a_bug_of_a_transport_is_raised_as_it_is_and_noted(error: Exception) -> None:
    async def main() -> list[tuple[str, str]]:
        asking = client(Odd(error), max_concurrent=1)
        ledger = Ledger(clock(), "t")
        with pytest.raises(type(error), match=str(error)):
            await asking.think(Ask(messages=bytearray(b"{}"), ledger=ledger, emit=nobody))
        assert asking.service.admission.inside == 0
        return [(each.outcome, each.reason) for each in ledger.attempts]

    assert run_virtual(main()) == [("failed", repr(error))]


def test_a_reply_that_is_cancelled() -> None:
    found = asked(client(Wire([says("a b c")])), cancel_at=115)
    assert found.attempts == ["first m 0-115 cancelled"]
    assert found.stages == ["prefill 100", "decode 15"]


def test_a_service_has_seen_what_it_replied_to() -> None:
    async def main() -> list[int]:
        ledger = Ledger(clock(), "t")
        asking = client(Wire([refuses(), says("Hello")]), retries=0)
        return [(await think(asking, ledger=ledger)).trace._ledger.sent for _ in range(2)]

    assert virtually(main()) == [0, len(PROMPT)]
