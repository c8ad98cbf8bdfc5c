"""Works on the clock of an event loop, and the timer that this takes."""

import asyncio

import pytest

from hotloop.lab.engines import driver as driving
from hotloop.lab.engines.driver import Driver
from hotloop.lab.engines.pipeline import Pipeline
from hotloop.lab.engines.work import Work
from hotloop.lab.profiles import Curve, Profile
from hotloop.lab.timer import make_alarm
from hotloop.lab.virtual import run_virtual
from hotloop.units import NS_PER_MS, clock

PROFILE = Profile(name="p", kind="lpu", base_ms=10.0, per_prompt_token_ms=0.0, tpot_ms=Curve(2.0))


@pytest.mark.parametrize(("opened", "timers"), [(False, 3), (True, 1)])
def test_a_timer_lasts_as_long_as_there_is_work_or_until_the_close(opened, timers, monkeypatch):
    made, told = [], []

    def making(ring):
        made.append(make_alarm(ring))
        return made[-1]

    async def play():
        driver, now = Driver(Pipeline(PROFILE)), clock()
        if opened:
            driver.open()
        for _ in range(2):
            asked = now()
            driver.submit(Work(2, lambda work: told.append((now() - asked) // NS_PER_MS)))  # noqa: B023  at once
            await asyncio.sleep(1)
        driver.submit(Work(1, lambda work: told.append("never")))
        driver.close()
        await asyncio.sleep(1)

    monkeypatch.setattr(driving, "make_alarm", making)
    run_virtual(play())
    assert told == [10, 12, 10, 12]
    assert len(made) == timers
