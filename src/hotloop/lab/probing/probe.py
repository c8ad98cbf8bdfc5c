"""A probe of one model: what it can do, how fast it is, and the profile that is like it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Self, cast

import msgspec

from hotloop.lab.probing.abilities import Ability, find_abilities
from hotloop.lab.probing.asking import Asker
from hotloop.lab.probing.fitting import CannotFit, Fit, Known, fit
from hotloop.lab.probing.measuring import Measured, Measuring, Note
from hotloop.lab.probing.plan import FULL, Cell
from hotloop.lab.probing.replay import Replayed, replay
from hotloop.lab.probing.texts import Texts
from hotloop.lab.profiles import Granularity
from hotloop.models.backend import Backend
from hotloop.models.model import Model
from hotloop.units import clock, ms


class ProbeReport(msgspec.Struct, frozen=True):
    """What a probe has found so far: `fit` is None when that is not enough for a profile, `why_not` then says why.

    `replayed` are the cells once more, as a simulated service with the fitted profile answers them.
    """

    service: str
    model: str
    dialect: str
    abilities: list[Ability]
    cells: list[Measured]
    fit: Fit | None = None
    why_not: str = ""
    replayed: list[Replayed] = []


class Probe:
    """Asks a model of a service; what was found can be read at any time, also after it was cancelled.

    It asks straight over the transport: no retry, queue or circuit breaker of ours is between. `timeout` is what a
    reply may take, in seconds.

        async with Probe(model) as probe:
            await probe.run()
        print(probe.report().fit.profile)
    """

    def __init__(self, model: Model, *, timeout: float = 60.0) -> None:
        backend = Backend(model)
        self.abilities: list[Ability] = []
        self.ready_ms = 0.0
        self._model = model
        self._asker = Asker(backend.transport, model.name, backend.dialect, timeout)
        self._texts = Texts()
        self._measuring = Measuring(self._asker, self._texts)

    async def __aenter__(self) -> Self:
        """Raises ConnectError when nobody is there, WeightsError for an embedded model without weights."""
        now = clock()
        begun = now()
        await self._asker.transport.warm(1)
        self.ready_ms = ms(now() - begun)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._asker.transport.aclose()

    async def run(self, cells: Sequence[Cell] = FULL, note: Note = lambda cell, ended: None) -> None:
        """Find out what the service can do, then measure these cells.

        `note` is told what is being measured: a cell, and how many of its requests have ended, first 0. Raises
        ModelError when the first question is not answered: a key or a model that the service does not take. What it
        refuses later is a finding.
        """
        async for ability in find_abilities(self._asker, self._texts):
            self.abilities.append(ability)
        await self.measure(cells, note)

    async def measure(self, cells: Sequence[Cell], note: Note = lambda cell, ended: None) -> None:
        """Measure these cells only; see `run`."""
        await self._measuring.measure(cells, note)

    @property
    def found(self) -> list[Measured]:
        """The cells that have been measured, and as far as it has come the one that is being measured."""
        return self._measuring.found

    def report(self, *, replayed: bool = True) -> ProbeReport:
        """What has been found, and the profile that is like it; if `replayed`, also what a simulation makes of that."""
        report = ProbeReport(self._model.where, self._model.name, self._asker.dialect.name, self.abilities, self.found)
        try:
            fitted = fit(self.found, self._known())
        except CannotFit as fault:
            return msgspec.structs.replace(report, why_not=str(fault))
        again = replay(fitted.profile, self.found) if replayed else []
        return msgspec.structs.replace(report, fit=fitted, replayed=again)

    def _known(self) -> Known:
        kinds = {ability.name: ability.kind for ability in self.abilities}
        asked = sum(len(measured.samples) for measured in self.found)
        return Known(
            name=self._model.name,
            source=f"hotloop probe of {self._model.where} on {date.today()}, {asked} requests",
            dialect=kinds.get("server timings") or self._asker.dialect.name,
            granularity=cast(Granularity, kinds.get("streamed arguments") or "token"),
        )
