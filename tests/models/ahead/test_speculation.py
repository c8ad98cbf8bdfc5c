"""Reading ahead: when it is done, that it never stands in the way, and that it ends where it does not pay."""

from __future__ import annotations

import asyncio
import logging

import pytest
from reading import ReadingService, Works, client_of, prefills, run_with

from hotloop.models.ahead.speculation import Speculator, Work
from hotloop.models.client import Client
from hotloop.testing import run_virtual
from hotloop.trace.ledger import Ledger
from hotloop.units import clock

LONG, SLOW = Works("search", 0.1, 3000), Works("slow", 5.0, 10)


def speculator_of(*clients: Client) -> Speculator:
    return Speculator(clients, ["search", "slow", "second", "third"], clients[0].dialect)


async def runs(client, number: int, *tools: Works):
    """Runs with these tools, one after the other."""
    speculator = speculator_of(client)
    return [await run_with(client, speculator, *tools) for _ in range(number)]


def test_a_long_result_beside_a_slow_tool_is_read_ahead():
    async def main():
        done = await runs(client_of(ReadingService()), 20, LONG, SLOW)
        read = [prefills(each) for each in done]
        assert read[:4] == [[]] * 4  # how long the tools take, and then how long it takes without
        assert read[4:8] == [["ok"]] * 4
        assert read.count([]) == 4 + 2  # one in eight for comparison
        assert all(each.ttft > 3.0 for each, outcomes in zip(done, read, strict=True) if not outcomes)
        assert all(each.ttft < 0.1 for each, outcomes in zip(done, read, strict=True) if outcomes)

    run_virtual(main())


@pytest.mark.parametrize(
    "tools",
    [
        [Works("search", 0.1, 50), SLOW],  # too little to read
        [SLOW, LONG],  # what is long does not come first
        [LONG],  # nothing to wait for
        [LONG, Works("slow", 1.0, 10)],  # the service would not be done in time
    ],
)
def test_what_could_not_pay_is_not_begun(tools):
    async def main():
        service = ReadingService()
        done = await runs(client_of(service), 12, *tools)
        assert [prefills(each) for each in done] == [[]] * 12
        assert len(service.bodies) == 24

    run_virtual(main())


def test_results_that_come_meanwhile_are_read_next_and_never_at_once():
    async def main():
        service = ReadingService()
        third = Works("third", 20.0, 10)
        done = await runs(client_of(service), 8, LONG, Works("second", 0.5, 2000), third)
        assert prefills(done[-1]) == ["ok", "ok"]
        assert service.most == 1

    run_virtual(main())


def test_it_is_cancelled_as_soon_as_all_results_are_there():
    async def main():
        service = ReadingService()
        client = client_of(service)
        speculator = speculator_of(client)
        for _ in range(5):
            done = await run_with(client, speculator, LONG, SLOW)
        assert prefills(done) == ["ok"]
        done = await run_with(client, speculator, LONG, SLOW._replace(seconds=2.0))
        assert prefills(done) == ["cancelled"]
        assert service.under_way == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}
        (attempt,) = [facts for facts in done.ledger.attempts if facts.why == "prefill"]
        assert attempt.end - done.ledger.attempts[0].end == 2_000_000_000

    run_virtual(main())


def test_it_ends_where_the_service_has_no_use_for_it():
    async def main():
        service = ReadingService(caches=False)
        done = await runs(client_of(service), 40, LONG, SLOW)
        assert sum(map(len, map(prefills, done))) == 4

    run_virtual(main())


def test_a_service_that_refuses_is_not_asked_a_third_time(caplog):
    async def main():
        caplog.set_level(logging.WARNING, "hotloop.prefix")
        done = await runs(client_of(ReadingService(status=400)), 40, LONG, SLOW)
        assert [outcome for each in done for outcome in prefills(each)] == ["failed", "failed"]
        (message,) = caplog.messages
        assert message.startswith("Nothing more is read ahead at ReadingService: ")

    run_virtual(main())


def test_all_agents_at_a_service_learn_from_each_other():
    async def main():
        client = client_of(ReadingService())
        await runs(client, 9, LONG, SLOW)
        done = await runs(client, 2, LONG, SLOW)  # another program's tools: their times are not known yet
        assert [prefills(each) for each in done] == [[], ["ok"]]

    run_virtual(main())


@pytest.mark.parametrize("dialect", ["generic", "openai", "groq"])
def test_services_that_could_not_take_it(dialect):
    async def main():
        done = await runs(client_of(ReadingService(), dialect), 8, LONG, SLOW)
        assert sum(map(len, map(prefills, done))) == 0

    run_virtual(main())


def test_turns_at_which_the_service_had_no_place_tell_nothing(monkeypatch):
    async def main():
        client = client_of(ReadingService())
        speculator, admission = speculator_of(client), client.service.admission
        for _ in range(4):
            await run_with(client, speculator, LONG, SLOW)
        with monkeypatch.context() as busy:
            let_in = admission.try_enter
            busy.setattr(admission, "try_enter", lambda *args, background=False: not background and let_in(*args))
            done = [await run_with(client, speculator, LONG, SLOW) for _ in range(10)]
        assert [prefills(each) for each in done] == [[]] * 10
        assert prefills(await run_with(client, speculator, LONG, SLOW)) == ["ok"]

    run_virtual(main())


def test_turns_whose_results_the_service_refused_to_read_tell_nothing():
    async def main():
        service = ReadingService()
        client = client_of(service)
        speculator, outcomes = speculator_of(client), []
        for status in (200, 200, 200, 200, 503, 200, 503, 200, 200, 503, 200):
            service.status = status
            outcomes += [prefills(await run_with(client, speculator, LONG, SLOW))]
        assert outcomes[4:] == [["failed"], ["ok"], ["failed"], ["ok"], [], ["failed"], ["ok"]]

    run_virtual(main())


def test_only_what_the_program_has_is_remembered():
    speculator = speculator_of(client_of(ReadingService()))
    for name in ("slow", *(f"invented {number}" for number in range(100))):
        speculator.took(name, 5)
    assert [speculator.left([(name, 1)], 2) for name in ("slow", "invented 7")] == [4, 0]


def test_nothing_is_put_together_before_it_could_be_sent():
    async def main():
        client = client_of(ReadingService())
        speculator, ledger = speculator_of(client), Ledger(clock(), "run")
        ledger.sent_to = client.service
        speculator.took("slow", 5)
        ahead = speculator.begin(Work(ledger, bytearray(), lambda: pytest.fail("not now"), lambda: [("search", 1)]))
        ahead.finished("slow", 5)
        await ahead.end()

    run_virtual(main())


def test_each_service_is_judged_by_its_own_turns():
    async def main():
        first, second = client_of(ReadingService()), client_of(ReadingService(), name="other")
        speculator = speculator_of(first, second)
        for client in (first, second):
            done = [await run_with(client, speculator, LONG, SLOW) for _ in range(5)]
            assert prefills(done[-1]) == ["ok"]
        moved = [await run_with(first, speculator, LONG, SLOW, then=second) for _ in range(8)]
        assert [outcome for each in moved for outcome in prefills(each)].count("ok") >= 6
        assert prefills(await run_with(first, speculator, LONG, SLOW)) == [
            "ok"
        ]  # second's times are not held against it

    run_virtual(main())
