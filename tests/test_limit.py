"""A time limit must not be mistaken for a cancellation, nor a cancellation for a time limit."""

import asyncio

import pytest

from hotloop.lab.virtual import run_virtual
from hotloop.limit import Limit
from hotloop.units import NS_PER_MS, clock


async def limited(seconds: float | None, work) -> float:
    """Milliseconds that `work` took under a limit."""
    now = clock()
    start = now()
    with Limit(seconds, asyncio.get_running_loop()):
        await work
    return (now() - start) / NS_PER_MS


def test_what_is_in_time_is_left_alone():
    assert run_virtual(limited(0.5, asyncio.sleep(0.499))) == 499
    assert run_virtual(limited(None, asyncio.sleep(3600))) == 3_600_000


def test_no_timer_is_left_when_the_block_has_ended():
    async def main():
        loop = asyncio.get_running_loop()
        with Limit(60.0, loop):
            pass
        return [handle for handle in loop._scheduled if not handle.cancelled()]

    assert run_virtual(main()) == []


def test_time_over_is_a_timeout_error_at_that_moment():
    async def main():
        now = clock()
        start = now()
        limit = Limit(0.25, asyncio.get_running_loop())
        with pytest.raises(TimeoutError), limit:
            await asyncio.sleep(10)
        task = asyncio.current_task()
        return limit.expired, task.cancelling(), (now() - start) / NS_PER_MS

    assert run_virtual(main()) == (True, 0, 250)


def test_a_timeout_of_the_inside_is_told_from_ours():
    async def main():
        limit = Limit(0.25, asyncio.get_running_loop())
        with pytest.raises(TimeoutError, match="inside"), limit:
            raise TimeoutError("inside")
        return limit.expired

    assert run_virtual(main()) is False


def test_errors_of_the_inside_come_through():
    with pytest.raises(LookupError):
        run_virtual(limited(1.0, failing(LookupError())))


async def failing(error: Exception):
    raise error


async def cancelled_by_now(task: asyncio.Task) -> bool:
    await asyncio.wait({task}, timeout=0.1)
    return task.cancelled()


def test_a_cancellation_stays_a_cancellation():
    async def main():
        task = asyncio.create_task(limited(5.0, asyncio.sleep(3)))
        await asyncio.sleep(0.1)
        task.cancel()
        return await cancelled_by_now(task)

    assert run_virtual(main())


def test_a_cancellation_in_the_moment_of_the_timeout_wins():
    async def main():
        loop = asyncio.get_running_loop()
        tasks = []
        loop.call_later(0.25, lambda: tasks[0].cancel())
        tasks.append(asyncio.create_task(limited(0.25, asyncio.sleep(3))))
        loop.call_later(0.25, lambda: tasks[0].cancel())
        await asyncio.sleep(0.25)
        return await cancelled_by_now(tasks[0])

    assert run_virtual(main())


async def returning(value):
    try:
        await asyncio.sleep(10)
    except asyncio.CancelledError:
        return value


async def raising(error: Exception):
    try:
        await asyncio.sleep(10)
    except asyncio.CancelledError:
        raise error from None


@pytest.mark.parametrize("make", [lambda: returning("no"), lambda: raising(LookupError("no"))])
def test_what_swallows_a_cancellation_is_cancelled_all_the_same(make):
    async def main():
        task = asyncio.create_task(limited(5.0, make()))
        await asyncio.sleep(0.1)
        task.cancel()
        return await cancelled_by_now(task)

    assert run_virtual(main())


def test_what_answers_late_has_answered():
    """As with asyncio.timeout: who handles the cancellation may still give a result."""

    async def main():
        with Limit(0.1, asyncio.get_running_loop()):
            return await returning("late")

    assert run_virtual(main()) == "late"


def test_it_works_while_a_cancellation_is_being_handled():
    """Cleaning up after a cancellation may take an agent: its time limits still are time limits."""

    async def main():
        async def work():
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                with pytest.raises(TimeoutError), Limit(0.1, asyncio.get_running_loop()):
                    await asyncio.sleep(10)
                return await limited(1.0, asyncio.sleep(0.2))

        task = asyncio.create_task(work())
        await asyncio.sleep(0.1)
        task.cancel()
        return await task

    assert run_virtual(main()) == 200
