import asyncio
import sys
import time

import pytest

from hotloop.lab.timer import make_alarm
from hotloop.lab.virtual import run_virtual
from hotloop.units import NS_PER_MS, clock


@pytest.fixture(params=["timerfd", "loop"])
async def rings(request, monkeypatch):
    """An alarm, and the queue of the moments in which it rang."""
    if request.param == "loop":
        monkeypatch.setattr(sys, "platform", "somewhere else")
    elif sys.platform != "linux":
        pytest.skip("timerfd is Linux's")
    moments: asyncio.Queue[int] = asyncio.Queue()
    alarm = make_alarm(lambda: (moments.put_nowait(clock()()), alarm.set(None)))
    yield alarm, moments
    alarm.close()


async def next_ring(moments):
    return await asyncio.wait_for(moments.get(), 5)


async def test_it_rings_when_the_moment_has_come(rings):
    alarm, moments = rings
    now = clock()()
    for delay in (2, 1):
        alarm.set(now + delay * NS_PER_MS)
        assert await next_ring(moments) >= now + (delay - 1) * NS_PER_MS  # a loop may round down
    assert moments.empty()


async def test_a_new_moment_takes_the_place_of_the_old(rings):
    alarm, moments = rings
    now = clock()()
    alarm.set(now + 3_600_000 * NS_PER_MS)
    alarm.set(now + NS_PER_MS)
    await next_ring(moments)
    alarm.set(clock()() + NS_PER_MS)
    alarm.set(None)
    await asyncio.sleep(0.005)
    assert moments.empty()


async def test_a_moment_that_is_past_rings_at_once(rings):
    alarm, moments = rings
    alarm.set(clock()() - NS_PER_MS)
    await next_ring(moments)


async def test_it_rings_in_groups_rather_than_all_the_time(rings):
    alarm, moments = rings
    start = clock()()
    for _ in range(21):
        alarm.set(clock()())
        last = await next_ring(moments)
    if "TimerFd" in type(alarm).__name__:
        assert last - start >= 20 * NS_PER_MS // 10


async def test_it_rests_when_it_is_not_set(rings):
    alarm, moments = rings
    alarm.set(clock()() + NS_PER_MS)
    await next_ring(moments)
    before = time.process_time()
    await asyncio.sleep(0.05)
    assert time.process_time() - before < 0.03  # one that stays readable would spin


def test_in_virtual_time_it_is_exact():
    async def main():
        rang = asyncio.get_running_loop().create_future()
        start = clock()()
        alarm = make_alarm(lambda: rang.set_result(clock()() - start))
        alarm.set(start + 1_234_567_891)
        return await rang

    assert run_virtual(main()) == 1_234_567_891
