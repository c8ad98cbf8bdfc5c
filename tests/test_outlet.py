"""Events reach one reader in order, and a slow reader holds the network up instead of filling memory."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from hotloop.events import TextDelta
from hotloop.lab.virtual import run_virtual
from hotloop.outlet import _HIGH, Outlet


class Gate:
    """A throttle that notes what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def pause(self) -> None:
        self.told.append("pause")

    def resume(self) -> None:
        self.told.append("resume")


def texts(count: int, start: int = 0) -> list[TextDelta]:
    return [TextDelta(str(number)) for number in range(start, start + count)]


async def outlet_with(count: int, gate: Gate | None = None) -> Outlet:
    outlet = Outlet()
    outlet.put(texts(count), gate)
    return outlet


@given(st.lists(st.integers(0, 5), max_size=20), st.integers(0, 20))
def test_every_event_comes_once_and_in_order(sizes, at):
    async def main():
        outlet, seen = Outlet(), []

        async def write():
            start = 0
            for number, size in enumerate(sizes):
                outlet.put(texts(size, start))
                start += size
                if number % 3 == at % 3:
                    await asyncio.sleep(0.001)
            outlet.end()

        writer = asyncio.create_task(write())
        while await outlet.wait():
            seen += [event.text for event in outlet.take()]
        await writer
        return seen

    assert run_virtual(main()) == [str(number) for number in range(sum(sizes))]


def test_the_reader_is_woken_by_an_event_and_by_the_end():
    async def main():
        loop, outlet = asyncio.get_running_loop(), Outlet()
        loop.call_later(0.1, outlet.put, texts(1))
        loop.call_later(0.2, outlet.end)
        first = await outlet.wait()
        outlet.take()
        return first, await outlet.wait(), await outlet.wait()

    assert run_virtual(main()) == (True, False, False)


def test_what_was_put_before_the_end_is_still_read():
    async def main():
        outlet = await outlet_with(3)
        outlet.end()
        there = await outlet.wait()
        return there, len(outlet.take()), await outlet.wait()

    assert run_virtual(main()) == (True, 3, False)


def test_a_cancelled_reader_can_be_followed_by_another():
    async def main():
        outlet = Outlet()
        reader = asyncio.ensure_future(outlet.wait())
        await asyncio.sleep(0)
        reader.cancel()
        await asyncio.wait({reader})
        outlet.put(texts(1))
        return await outlet.wait()

    assert run_virtual(main()) is True


def test_the_throttle_is_paused_above_the_bound_and_resumed_by_reading():
    async def main():
        gate = Gate()
        outlet = await outlet_with(_HIGH, gate)
        assert gate.told == []
        outlet.put(texts(1), gate)
        outlet.put(texts(1), gate)
        assert gate.told == ["pause"]
        assert len(outlet.take()) == _HIGH + 2
        assert gate.told == ["pause", "resume"]
        outlet.put(texts(1), gate)
        outlet.take()
        return gate.told

    assert run_virtual(main()) == ["pause", "resume"]


def test_events_without_a_throttle_are_always_taken():
    async def main():
        return len((await outlet_with(3 * _HIGH)).take())

    assert run_virtual(main()) == 3 * _HIGH


def test_a_second_reply_is_held_up_too_although_the_first_was_never_resumed():
    """The first was paused and then failed; its connection is gone, and the retry must not fill memory."""

    async def main():
        first, second = Gate(), Gate()
        outlet = await outlet_with(_HIGH + 1, first)
        outlet.put(texts(1), second)
        assert second.told == ["pause"]
        outlet.take()
        return second.told

    assert run_virtual(main()) == ["pause", "resume"]
