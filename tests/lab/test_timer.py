import asyncio
import sys
import time

import pytest

from hotloop.lab.timer import DeadlineTimer
from hotloop.units import NS_PER_MS


@pytest.fixture(params=["timerfd", "loop"])
async def timer(request, monkeypatch):
    if request.param == "loop":
        monkeypatch.setattr(sys, "platform", "somewhere else")
    elif sys.platform != "linux":
        pytest.skip("timerfd is Linux's")
    timer = DeadlineTimer()
    yield timer
    timer.close()


async def test_deadlines_are_kept_in_order_and_never_early(timer):
    start, called, done = time.monotonic_ns(), [], asyncio.Event()
    for delay in (3, 1, 2):
        timer.at(start + delay * NS_PER_MS, lambda now, delay=delay: called.append((delay, now)))
    timer.at(start + 4 * NS_PER_MS, lambda now: done.set())
    await asyncio.wait_for(done.wait(), 5)
    assert [delay for delay, _ in called] == [1, 2, 3]
    assert all(now >= start + delay * NS_PER_MS for delay, now in called)


async def test_a_nearer_deadline_is_not_held_up_by_a_farther_one(timer):
    start, done = time.monotonic_ns(), asyncio.Event()
    timer.at(start + 3_600_000 * NS_PER_MS, lambda now: None)
    timer.at(start + NS_PER_MS, lambda now: done.set())
    await asyncio.wait_for(done.wait(), 5)


async def test_a_deadline_may_set_the_next(timer):
    moments, done = [], asyncio.Event()

    def tick(now):
        moments.append(now)
        timer.at(now + NS_PER_MS // 2, tick) if len(moments) < 10 else done.set()

    timer.at(time.monotonic_ns(), tick)
    await asyncio.wait_for(done.wait(), 5)
    assert moments == sorted(moments)


async def test_a_deadline_that_fails_does_not_stop_the_others(timer):
    faults, done = [], asyncio.Event()
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context["exception"]))
    now = time.monotonic_ns()
    timer.at(now, lambda now: 1 // 0)
    timer.at(now + NS_PER_MS, lambda now: done.set())
    await asyncio.wait_for(done.wait(), 5)
    assert isinstance(faults[0], ZeroDivisionError)


async def test_it_rests_when_there_is_nothing_to_do(timer):
    done = asyncio.Event()
    timer.at(time.monotonic_ns(), lambda now: done.set())
    await asyncio.wait_for(done.wait(), 5)
    before = time.process_time()
    await asyncio.sleep(0.05)
    assert time.process_time() - before < 0.03  # a fired alarm that stays readable would spin
