"""Asks a simulated service with a fitted profile what the real one was asked, to see whether it is like it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from hotloop.lab.probing.abilities import find_abilities
from hotloop.lab.probing.asking import Asker
from hotloop.lab.probing.measuring import Measured, Measuring
from hotloop.lab.probing.report import Percentiles, summary
from hotloop.lab.probing.texts import Texts
from hotloop.lab.profiles import Profile
from hotloop.lab.script import Request
from hotloop.lab.simtransport import SimulatedTransport
from hotloop.lab.virtual import run_virtual
from hotloop.models.dialects import DIALECTS

_LONG_REPLY = "one " * 2000  # which ends at its cap


class Replayed(msgspec.Struct, frozen=True):
    """The medians of one cell, measured and simulated, in milliseconds; None where there is none."""

    title: str
    ttft_ms: float | None
    simulated_ttft_ms: float | None
    tpot_ms: float | None
    simulated_tpot_ms: float | None


def replay(profile: Profile, found: Sequence[Measured]) -> list[Replayed]:
    """The cells that were measured in full, again, in virtual time; takes about as long as a second."""
    complete = [measured for measured in found if measured.samples and not measured.stopped]
    with ThreadPoolExecutor(1) as aside:  # this thread may have an event loop that runs
        simulated = aside.submit(run_virtual, _measure(profile, complete)).result()
    return [_compared(*pair) for pair in zip(complete, simulated, strict=True)]


async def _measure(profile: Profile, found: Sequence[Measured]) -> list[Measured]:
    asker = Asker(SimulatedTransport(_answer, profile=profile), profile.name, DIALECTS[profile.dialect])
    texts = Texts()
    async for _ in find_abilities(asker, texts):
        pass  # asked for how long its prompts are, which the texts learn
    measuring = Measuring(asker, texts)
    await measuring.measure([measured.cell for measured in found])
    return measuring.found


def _answer(request: Request) -> str:
    return _LONG_REPLY


def _compared(real: Measured, simulated: Measured) -> Replayed:
    ours, theirs = summary(real.asked), summary(simulated.asked)
    return Replayed(real.cell.title, *map(_usual, (ours.ttft, theirs.ttft, ours.tpot, theirs.tpot)))


def _usual(times: Percentiles | None) -> float | None:
    return times.p50 if times else None
