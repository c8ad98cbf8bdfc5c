"""Two tries of which one counts: who wins, who is cancelled, what is raised, and that each is ended once."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from hotloop.errors import Overloaded, TransportError
from hotloop.models.policy.race import Race
from hotloop.testing import run_virtual

FAULT = TransportError("cut")


class Runner:
    """A race of tries, each of which follows a list: a number is a wait in ms, "claim" claims, else it is its end."""

    def __init__(self, *tries: list, after: float = 100, may: bool = True) -> None:
        self.tries = tries
        self.after, self.may = after, may
        self.notes: list[str] = []
        self.ended = 0

    async def _try(self, number: int, claim) -> str:
        self.notes.append(f"{number} begins")
        try:
            for step in self.tries[number]:
                if isinstance(step, int):
                    await asyncio.sleep(step / 1000)
                elif step == "claim":
                    self.notes.append(f"{number} {'has it' if claim() else 'is late'}")
                elif isinstance(step, BaseException):
                    raise step
                else:
                    return step
            raise AssertionError("a try has an end")
        except asyncio.CancelledError:
            self.notes.append(f"{number} cancelled")
            raise

    def _over(self) -> None:
        self.ended += 1

    async def run(self, cancel_at: float | None = None) -> object:
        loop = asyncio.get_running_loop()
        self.race = Race(self._try, self._over)
        started = loop.time()
        task = asyncio.create_task(self.race.run(self.after / 1000, lambda: self.may))
        if cancel_at is not None:
            loop.call_later(cancel_at / 1000, task.cancel)
        try:
            return await task
        except Exception as error:
            return error
        except asyncio.CancelledError:
            return "cancelled"
        finally:
            self.ms = round((loop.time() - started) * 1000)
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert self.ended == len(self.race._tasks)


def raced(*tries: list, cancel_at: float | None = None, **options) -> tuple[object, int, list[str]]:
    runner = Runner(*tries, **options)
    return run_virtual(runner.run(cancel_at)), runner.ms, runner.notes


@pytest.mark.parametrize(
    ("tries", "outcome", "took", "notes"),
    [
        ([[50, "a"]], "a", 50, ["0 begins"]),
        ([[50, "claim", 500, "a"]], "a", 550, ["0 begins", "0 has it"]),
        ([[50, FAULT]], FAULT, 50, ["0 begins"]),
        ([[200, "a"], [50, "b"]], "b", 150, ["0 begins", "1 begins", "0 cancelled"]),
        ([[120, "a"], [50, "b"]], "a", 120, ["0 begins", "1 begins", "1 cancelled"]),
        ([[120, "claim", 500, "a"], [50, "b"]], "a", 620, ["0 begins", "1 begins", "0 has it", "1 cancelled"]),
        ([[500, "a"], [50, "claim", 500, "b"]], "b", 650, ["0 begins", "1 begins", "1 has it", "0 cancelled"]),
        ([[500, "a"], [50, FAULT]], "a", 500, ["0 begins", "1 begins"]),
        ([[120, FAULT], [500, "b"]], "b", 600, ["0 begins", "1 begins"]),
        ([[120, FAULT], [500, Overloaded("x")]], "x", 600, ["0 begins", "1 begins"]),
        ([[500, FAULT], [50, Overloaded("x")]], "cut", 500, ["0 begins", "1 begins"]),
        ([[120, "claim", 50, FAULT], [500, "b"]], "cut", 170, ["0 begins", "1 begins", "0 has it", "1 cancelled"]),
        ([[120, FAULT], [50, "claim", 500, FAULT]], "cut", 650, ["0 begins", "1 begins", "1 has it"]),
        ([[120, FAULT], [20, FAULT]], "cut", 120, ["0 begins", "1 begins"]),
    ],
)
def test_who_wins(tries: list, outcome: object, took: int, notes: list[str]) -> None:
    found, ms, noted = raced(*tries)
    assert (str(found), ms, [each for each in noted if "cancelled" not in each or each in notes]) == (
        str(outcome),
        took,
        notes,
    )


def test_there_is_no_second_try_if_it_may_not_be() -> None:
    assert raced([500, "a"], ["b"], may=False) == ("a", 500, ["0 begins"])


@pytest.mark.parametrize("at", [50, 130])
def test_a_bug_is_not_left_to_the_other_try(at: int) -> None:
    found, ms, _ = raced([at, RuntimeError("a bug")], [500, "b"])
    assert (repr(found), ms) == ("RuntimeError('a bug')", at)


def test_a_claim_of_who_is_late_is_refused() -> None:
    """As it is made from a callback, before its task has heard that it is cancelled."""

    async def main() -> tuple[list[bool], str]:
        claims, told = [], []

        async def begin(number: int, claim) -> str:
            claims.append(claim)
            await asyncio.sleep(1)
            return str(number)

        def both() -> None:
            told.extend(claims[number]() for number in (1, 0, 1))

        asyncio.get_running_loop().call_later(0.2, both)
        won = await Race(begin, lambda: None).run(0.1, lambda: True)
        return told, won

    assert run_virtual(main()) == ([True, False, True], "1")


@pytest.mark.parametrize("moment", [0, 50, 100, 120, 150, 400, 650])
def test_a_cancelled_race_ends_both(moment: float) -> None:
    found, ms, notes = raced([700, "a"], [50, "claim", 500, "b"], cancel_at=moment)
    ended = ("b", 650) if moment == 650 else ("cancelled", moment)
    assert (found, ms) in [ended, ("cancelled", 650)]
    assert len([each for each in notes if each.endswith("cancelled")]) <= 2


class Steps:
    """Tries that take turns of the event loop instead of time: every order of claims, ends and cancellations."""

    def __init__(self, counts: tuple[int, ...], claims: tuple[bool, ...], ends: tuple[object, ...]) -> None:
        self.counts, self.claims, self.ends = counts, claims, ends
        self.granted: list[int] = []
        self.ended = 0

    def over(self) -> None:
        self.ended += 1

    async def begin(self, number: int, claim) -> int:
        for _ in range(self.counts[number]):
            await asyncio.sleep(0)
        if self.claims[number] or isinstance(self.ends[number], int):
            if not claim():
                raise asyncio.CancelledError
            self.granted.append(number)
        for _ in range(3):
            await asyncio.sleep(0)
        if isinstance(self.ends[number], int):
            return number
        raise FAULT

    async def run(self, cancel_after: int) -> object:
        task = asyncio.create_task(Race(self.begin, self.over).run(0, lambda: True))
        for _ in range(cancel_after):
            await asyncio.sleep(0)
        task.cancel()
        try:
            return await task
        except TransportError:
            return "failed"
        except asyncio.CancelledError:
            return "cancelled"


EVERY_LOOP = True


async def test_in_whatever_order_things_happen_one_counts_and_all_end() -> None:
    orders = itertools.product(
        itertools.product(range(4), range(4)),
        itertools.product([False, True], repeat=2),
        [(0, 1), (0, FAULT), (FAULT, 1), (FAULT, FAULT)],
        [*range(1, 12), 40],
    )
    for counts, claims, ends, cancel_after in orders:
        steps = Steps(counts, claims, ends)
        found = await steps.run(cancel_after)
        await asyncio.sleep(0)
        assert len(steps.granted) <= 1
        assert steps.ended in (1, 2)
        assert found in ("cancelled", "failed") or [found] == steps.granted
        assert asyncio.all_tasks() == {asyncio.current_task()}
