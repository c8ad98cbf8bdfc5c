"""Which faults are planted together, in which scenarios, and what is to be found then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import NamedTuple

from hotloop.lab.faulty.planted import FAULTS
from hotloop.lab.faulty.play import play
from hotloop.lab.faulty.scenarios import SCENARIOS
from hotloop.lab.faulty.setup import Setup
from hotloop.trace.record import TraceRecord


class Planted(NamedTuple):
    """These faults, none or more, in this scenario with this seed."""

    scenario: str
    seed: int
    faults: tuple[str, ...] = ()

    @property
    def setup(self) -> Setup:
        """What is simulated."""
        setup = SCENARIOS[self.scenario](self.seed)
        for name, fault in FAULTS.items():
            if name in self.faults:
                fault.plant(setup)
        return setup

    @property
    def expected(self) -> set[str]:
        """The rules that are to find something."""
        return {FAULTS[name].finds for name in self.faults}

    @property
    def allowed(self) -> set[str]:
        """The rules that may find something beside them."""
        setup = self.setup
        return {each.rule for each in IMPLIED if each.fault in self.faults and each.when(setup)}

    @property
    def possible(self) -> bool:
        """Whether all these faults are faults in each other's company, and can be seen."""
        faults, scenario = set(self.faults), self.scenario
        return not any(
            each.fault in faults
            and (not each.others or faults & set(each.others))
            and scenario in (each.only or scenario)
            for each in APART
        )

    def play(self) -> list[TraceRecord]:
        """The recorded runs."""
        return play(self.setup)


class Implied(NamedTuple):
    """Where `when` holds, a `fault` brings what another `rule` finds as well."""

    fault: str
    rule: str
    when: Callable[[Setup], bool]
    why: str


class Apart(NamedTuple):
    """A fault that is none beside any of the `others`, or cannot be seen there; without others, in any company.

    With `only` it is so in these scenarios alone.
    """

    fault: str
    others: tuple[str, ...]
    why: str
    only: tuple[str, ...] = ()


IMPLIED = (
    Implied(
        "blocked loop",
        "far-away",
        lambda setup: setup.at_once > 1,
        "tokens of one run wait to be read while another one keeps the event loop busy, as if they came from afar",
    ),
    Implied(
        "blocked loop",
        "unstable-decode",
        lambda setup: setup.at_once > 1,
        "so do those in the middle of a reply, as if nothing came",
    ),
    Implied(
        "long question",
        "growing-context",
        lambda setup: setup.session,
        "in a conversation every long question stays in the prompt",
    ),
)

APART = (
    Apart("busy neighbours", ("one slot",), "in one slot nobody is beside a reply"),
    Apart("busy neighbours", ("rate limit",), "the neighbours would use up the limit, and runs never end"),
    Apart("hiccups", ("held back",), "a proxy that holds replies back hides when what of them came"),
    Apart("failing tool", ("same questions",), "what is asked again fails again, or never: four questions are too few"),
    Apart("slow tool", ("asked by all",), "what runs beside a slower tool costs nothing"),
    Apart("no parallel", ("slow writing",), "calls that are written slower than they run do not wait for each other"),
    Apart("one slot", ("one place", "rate limit"), "who waits outside does not wait inside"),
    Apart("vain hedges", ("one place", "rate limit"), "no second request is sent where there is no place for it"),
    Apart("vain hedges", ("refused", "overloaded"), "nor to a service that asks to be left alone"),
    Apart("vain hedges", ("long question", "slow reading"), "nor, or seldom, where times differ as much as prompts do"),
    Apart("vain hedges", ("one slot",), "where requests queue in the service, second ones are seldom sent"),
    Apart(
        "slow reading", ("same questions",), "the service does not tell that it knows most of the prompts", ("mute",)
    ),
    Apart("full cache", (), "the service does not tell what it had cached", ("mute",)),
    Apart("one slot", (), "the service does not tell its times", ("mute",)),
    Apart(
        "held back",
        ("slow reading", "slow writing", "busy neighbours"),
        "the service does not tell its times, and the proxy hides them",
        ("mute",),
    ),
)


def cases(scenarios_a_pair: int, seeds: int = 1) -> Iterator[Planted]:
    """Every scenario without a fault and with each, with so many seeds, and every pair of faults in some of them."""
    names = list(SCENARIOS)
    for seed in range(1, seeds + 1):
        for name in names:
            yield from _possible(Planted(name, seed, faults) for faults in [(), *((fault,) for fault in FAULTS)])
    for place, faults in enumerate(combinations(FAULTS, 2)):
        turned = [names[(place + turn) % len(names)] for turn in range(len(names))]
        pairs = list(_possible(Planted(name, seeds + 1, faults) for name in turned))
        yield from pairs[:scenarios_a_pair]


def _possible(some: Iterator[Planted]) -> Iterator[Planted]:
    return (each for each in some if each.possible)
