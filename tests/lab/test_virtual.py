import asyncio
import threading
import time

import pytest

from hotloop.lab.virtual import VirtualDeadlock, run_virtual
from hotloop.units import clock


async def elapsed(main) -> int:
    now = clock()
    start = now()
    await main
    return now() - start


def test_sleeping_takes_virtual_time_only():
    started = time.monotonic()
    assert run_virtual(elapsed(asyncio.sleep(3600))) == 3_600_000_000_000
    assert time.monotonic() - started < 5


def test_sums_of_sleeps_are_exact():
    async def many():
        for _ in range(1000):
            await asyncio.sleep(0.0021)

    assert run_virtual(elapsed(many())) == 2_100_000_000


def test_timers_fire_in_order_at_their_times():
    async def main():
        loop, now, seen = asyncio.get_running_loop(), clock(), []
        start = now()
        for delay in (0.003, 0.001, 0.002):
            loop.call_later(delay, lambda delay=delay: seen.append((delay, now() - start)))
        await asyncio.sleep(0.01)
        return seen

    assert run_virtual(main()) == [(0.001, 1_000_000), (0.002, 2_000_000), (0.003, 3_000_000)]


def test_parallel_waits_overlap():
    async def main():
        await asyncio.gather(*(asyncio.sleep(0.1) for _ in range(50)))

    assert run_virtual(elapsed(main())) == 100_000_000


def test_timeouts_are_exact():
    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.25):
                await asyncio.Event().wait()

    assert run_virtual(elapsed(main())) == 250_000_000


def test_time_stands_still_while_a_thread_works():
    async def main():
        release = threading.Event()
        asyncio.get_running_loop().call_soon(threading.Timer(0.05, release.set).start)
        sleeper = asyncio.create_task(asyncio.sleep(10))
        assert await asyncio.to_thread(release.wait, 5)
        assert not sleeper.done()
        sleeper.cancel()

    assert run_virtual(elapsed(main())) == 0


def test_a_thread_that_nobody_waits_for_does_not_hold_time():
    async def main():
        release = threading.Event()
        job = asyncio.ensure_future(asyncio.to_thread(release.wait, 5))
        await asyncio.sleep(0)
        job.cancel()
        await asyncio.sleep(10)
        release.set()

    assert run_virtual(elapsed(main())) == 10_000_000_000


def test_a_result_from_a_thread_comes_back():
    async def main():
        return await asyncio.gather(*(asyncio.to_thread(pow, 2, each) for each in range(20)))

    assert run_virtual(main()) == [2**each for each in range(20)]


def test_an_error_in_a_thread_comes_back():
    with pytest.raises(ValueError, match="invalid literal"):
        run_virtual(asyncio.to_thread(int, "x"))


def test_deadlock_is_told_with_the_tasks_that_wait():
    async def main():
        await asyncio.create_task(asyncio.Event().wait(), name="the waiter")

    with pytest.raises(VirtualDeadlock, match="the waiter"):
        run_virtual(main())


def test_each_run_has_its_own_loop_and_errors_come_through():
    async def main():
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run_virtual(main())
    assert run_virtual(elapsed(asyncio.sleep(1))) == 1_000_000_000


def test_cancelled_timers_do_not_move_the_clock():
    async def main():
        asyncio.get_running_loop().call_later(100, print).cancel()
        await asyncio.sleep(1)

    assert run_virtual(elapsed(main())) == 1_000_000_000
