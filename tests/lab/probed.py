"""Simulated services for the tests of the probe."""

from __future__ import annotations

from typing import Any

from hotloop.lab.auto import auto
from hotloop.lab.probing.plan import FULL, Cell
from hotloop.lab.probing.probe import Probe
from hotloop.lab.profiles import Profile
from hotloop.lab.script import AnyReply
from hotloop.lab.simtransport import SimulatedTransport
from hotloop.lab.virtual import run_virtual
from hotloop.models.model import Model
from hotloop.models.transport import Transport

WORDS = "one " * 300


def counting(request: dict[str, Any]) -> AnyReply:
    """What a model says that does as it is told: calls, JSON, or a long count."""
    offered = [tool["function"]["name"] for tool in request.get("tools", ())]
    return auto(request) if request.get("response_format") or "get_weather" in offered else WORDS


def probed(transport: Transport, cells: tuple[Cell, ...] = FULL, *, asking: bool = True, dialect: str = "") -> Probe:
    """A probe that has been through these cells in virtual time, and if `asking` first asked what it asks."""
    probe = Probe(Model(name="m", endpoint=transport, dialect=dialect or None))

    async def main() -> None:
        async with probe:
            await (probe.run if asking else probe.measure)(cells)

    run_virtual(main())
    return probe


def simulated(profile: Profile, seed: int = 1) -> SimulatedTransport:
    """Such a service."""
    return SimulatedTransport(counting, profile=profile, seed=seed)
