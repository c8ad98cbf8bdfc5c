"""Who may send a request: bounded, in order, and nobody is forgotten."""

import asyncio
import threading
import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.errors import ServiceBusy
from hotloop.lab.virtual import run_virtual
from hotloop.models.policy.admission import Admission
from hotloop.models.policy.policy import Policy
from hotloop.units import clock, ns


def sorted_by_coming(visits: list) -> list:
    return sorted(visits, key=lambda visit: visit[0])


class Door:
    """An admission with a diary: who entered when, in seconds since the start."""

    def __init__(self, **policy) -> None:
        self.admission = Admission(Policy(**policy))
        self.clock = clock()
        self.start = self.clock()
        self.entered: dict[str, float] = {}
        self.most = 0

    @property
    def now(self) -> float:
        return (self.clock() - self.start) / 1e9

    async def visit(self, name: str, stay: float = 1.0, *, tokens: int = 1, **options) -> None:
        await self.admission.enter(tokens, clock=self.clock, **options)
        self.entered[name] = self.now
        self.most = max(self.most, self.admission.inside)
        try:
            await asyncio.sleep(stay)
        finally:
            self.admission.leave()

    def limited(self, left: int, reset: str) -> None:
        """A reply told of ten requests in `reset`, of which so many are left."""
        now = self.clock()
        fields = {b"limit": b"10", b"remaining": b"%d" % left, b"reset": reset.encode()}
        self.admission.learn([(b"x-ratelimit-%b-requests" % name, fields[name]) for name in fields], now, now)


async def all_of(*visits, apart: float = 0.0) -> list:
    """Their outcomes, after they began in this order."""
    async with asyncio.TaskGroup() as group:
        tasks = []
        for visit in visits:
            tasks.append(group.create_task(outcome(visit)))
            await asyncio.sleep(apart)
    return [task.result() for task in tasks]


async def outcome(visit) -> str:
    try:
        await visit
    except ServiceBusy as busy:
        return str(busy)
    return "entered"


def test_so_many_at_once_and_first_come_first_served() -> None:
    async def main():
        door = Door(max_concurrent=2)
        await all_of(*(door.visit(name) for name in "abcde"))
        assert door.admission.inside == door.admission.queued == 0
        return door

    door = run_virtual(main())
    assert door.entered == {"a": 0, "b": 0, "c": 1, "d": 1, "e": 2}
    assert door.most == 2


def test_without_a_bound_nobody_waits() -> None:
    async def main():
        door = Door()
        await all_of(*(door.visit(str(number)) for number in range(50)))
        return door

    assert set(run_virtual(main()).entered.values()) == {0}


def test_background_waits_until_nobody_else_does() -> None:
    async def main():
        door = Door(max_concurrent=1)
        visits = [door.visit(name, background=name in "bc") for name in "abcde"]
        await all_of(*visits, apart=0.1)
        return door.entered

    assert list(run_virtual(main())) == ["a", "d", "e", "b", "c"]


def test_nobody_slips_past_who_waits() -> None:
    async def main():
        admission = Admission(Policy(max_concurrent=1))
        now = clock()
        assert admission.try_enter(1, now())
        waiting = asyncio.create_task(admission.enter(1, clock=now, background=True))
        await asyncio.sleep(1)
        admission.leave()
        tries = [admission.try_enter(1, now(), background=True), admission.try_enter(1, now())]
        admission.leave()
        await waiting
        return tries

    assert run_virtual(main()) == [False, True]  # foreground does slip past background


def test_a_full_queue_is_said_at_once() -> None:
    async def main():
        door = Door(max_concurrent=1, max_queued=1)
        return door.entered, await all_of(*(door.visit(name) for name in "abc"))

    entered, outcomes = run_virtual(main())
    assert entered == {"a": 0, "b": 1}
    assert outcomes[2] == (
        "The queue in front of the service is full (waiting: 1). Raise max_concurrent or max_queued in its policy, or "
        "ask less at once."
    )


def test_who_has_no_time_left_goes() -> None:
    async def main():
        door = Door(max_concurrent=1)
        outcomes = await all_of(door.visit("a", 5.0), door.visit("b", left=2.0), door.visit("c"))
        return door.entered, outcomes[1], door.now

    entered, told, end = run_virtual(main())
    assert entered == {"a": 0, "c": 5}
    assert told == ("The service could not be asked in the time that was left: all its places are taken (waiting: 2).")
    assert end == 6


def test_who_cannot_be_in_time_because_of_a_rate_limit_is_told_at_once() -> None:
    async def main():
        door = Door()
        door.limited(0, "10s")
        outcomes = await all_of(door.visit("a", left=0.5), door.visit("b", left=1.5), door.visit("c", left=1.5))
        return door.entered, outcomes

    entered, outcomes = run_virtual(main())
    assert entered == {"b": 1.0}
    assert outcomes[0] == (
        "The service cannot be asked in time: its rate limit (requests) is used up for another 1 s, and only "
        "500 ms are left."
    )
    assert "for another 2 s" in outcomes[2]  # b is ahead


def test_rate_limits_let_requests_go_one_by_one() -> None:
    async def main():
        door = Door()
        door.limited(1, "9s")
        await all_of(*(door.visit(name) for name in "abc"), door.visit("later", background=True))
        return door.entered

    assert run_virtual(main()) == {"a": 0, "b": 1, "c": 2, "later": 3}


def test_news_of_the_limit_wakes_who_waits_for_it() -> None:
    async def main():
        door = Door()
        door.limited(0, "1000s")
        asyncio.get_running_loop().call_later(3.0, door.limited, 9, "1s")
        await door.visit("a")
        return door.entered

    assert run_virtual(main()) == {"a": 3.0}


def test_a_service_that_wants_to_be_left_alone_is() -> None:
    async def main():
        door = Door(max_concurrent=1)
        asyncio.get_running_loop().call_later(0.5, lambda: door.admission.hold(door.clock() + ns(4.0)))
        told = await all_of(door.visit("a"), door.visit("b", left=3.0), door.visit("c"))
        return door.entered, told[1]

    entered, told = run_virtual(main())
    assert entered == {"a": 0, "c": 4.5}
    assert "the service asked to be left alone" in told


VISITS = st.lists(
    st.tuples(
        st.integers(0, 20),  # comes
        st.integers(0, 5),  # stays
        st.booleans(),  # in the background
        st.none() | st.integers(0, 12),  # has so much time
        st.none() | st.integers(0, 25),  # is cancelled
    ),
    max_size=14,
).map(sorted_by_coming)


@settings(deadline=None, max_examples=300)
@given(VISITS, st.integers(1, 3), st.none() | st.integers(0, 3))
def test_whoever_comes_goes_or_is_told(visits: list, places: int, rate: int | None) -> None:
    """Bounded, in order, nobody forgotten, whoever is cancelled at whatever moment."""
    waiting: dict[int, bool] = {}  # who waits, and whether in the background
    done: set[int] = set()

    async def visit(door: Door, number: int, stay: int, background: bool, left: int | None) -> None:
        waiting[number] = background
        try:
            await door.admission.enter(1, clock=door.clock, background=background, left=left)
        finally:
            del waiting[number]
        try:
            assert not [each for each, back in waiting.items() if (back, each) < (background, number)], "not its turn"
            assert door.admission.inside <= places
            await asyncio.sleep(stay)
            done.add(number)
        finally:
            door.admission.leave()

    async def main() -> None:
        door = Door(max_concurrent=places)
        if rate is not None:
            door.limited(rate, "7s")
        tasks = []
        for number, (comes, stay, background, left, cancelled) in enumerate(visits):
            await asyncio.sleep(comes - door.now)
            tasks.append(asyncio.create_task(visit(door, number, stay, background, left)))
            if cancelled is not None:
                asyncio.get_running_loop().call_later(cancelled - door.now, tasks[-1].cancel)
        for task in tasks:
            with suppress(ServiceBusy, asyncio.CancelledError):
                await task
        assert (door.admission.inside, door.admission.queued, waiting) == (0, 0, {})
        assert done >= {number for number, (*_, left, cancelled) in enumerate(visits) if left is cancelled is None}

    run_virtual(main())


@pytest.mark.parametrize("places", [1, 3])
def test_event_loops_in_several_threads_share_the_places(places: int) -> None:
    admission = Admission(Policy(max_concurrent=places))
    most: list[int] = []

    async def visit() -> None:
        await admission.enter(1, clock=time.perf_counter_ns)
        most.append(admission.inside)
        await asyncio.sleep(0)
        admission.leave()

    async def many() -> None:
        async with asyncio.timeout(30):
            await asyncio.gather(*(visit() for _ in range(100)))

    threads = [threading.Thread(target=asyncio.run, args=(many(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 400
    assert max(most) <= places
    assert admission.inside == admission.queued == 0


def test_an_event_loop_that_died_with_its_request_holds_nobody_up() -> None:
    admission = Admission(Policy(max_concurrent=1))
    assert admission.try_enter(1, 0)
    loop = asyncio.new_event_loop()
    orphan = admission.enter(1, clock=time.perf_counter_ns)
    task = loop.create_task(orphan)
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()

    async def main() -> None:
        asyncio.get_running_loop().call_soon(admission.leave)
        await admission.enter(1, clock=time.perf_counter_ns)

    asyncio.run(main())
    assert (admission.inside, admission.queued) == (1, 0)
    task._log_destroy_pending = False
    orphan.close()
