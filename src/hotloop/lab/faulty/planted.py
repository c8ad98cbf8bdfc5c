"""The faults that can be planted: each changes a healthy setup, and says what is to be found then."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, count
from typing import Any

import msgspec
from msgspec.structs import replace

from hotloop.lab.faults import Fault, FaultyTransport, Late, Stall, mixed_faults
from hotloop.lab.faulty.setup import Lookup, Setup, Step
from hotloop.lab.faulty.wires import HoldingBack
from hotloop.lab.profiles import Curve


class Planting(msgspec.Struct, frozen=True):
    """A fault by its `name`: `plant` changes a setup, and the rule `finds` is to see it."""

    name: str
    finds: str
    plant: Callable[[Setup], None]


def _same_questions(setup: Setup) -> None:
    setup.questions = 4


def _long_chain(setup: Setup) -> None:
    """Nine lookups, each about what the one before it has found."""
    setup.tools["step"] = Lookup(0.012)
    setup.rounds = [*setup.rounds, *[[Step("step", "result")] for _ in range(9)]]


def _blocked_loop(setup: Setup) -> None:
    setup.blocked = 0.12


def _long_question(setup: Setup) -> None:
    setup.document = 6000


def _slow_reading(setup: Setup) -> None:
    setup.profile = replace(setup.profile, per_prompt_token_ms=1.0)


def _slow_writing(setup: Setup) -> None:
    setup.profile = replace(setup.profile, tpot_ms=replace(setup.profile.tpot_ms, a=75.0, cap=None))


def _busy_neighbours(setup: Setup) -> None:
    """Others on the same GPU, whose replies are decoded in the same steps."""
    alone = setup.profile.tpot_ms.at(1)
    curve = Curve(alone * 0.7, alone * 0.3)
    setup.profile = replace(setup.profile, kind="gpu", tpot_ms=curve, slots=None, decode_sigma=0.05)
    setup.neighbours = 9


def _hiccups(setup: Setup) -> None:
    """In many a reply nothing comes for a while."""
    silences = mixed_faults(0.5, setup.seed, [Stall(3000, 1.8)])
    setup.wires.append(lambda wire: FaultyTransport(wire, silences))


def _flawed_calls(setup: Setup) -> None:
    setup.flawed = True


def _slow_tool(setup: Setup) -> None:
    setup.tools["archive"] = Lookup(2.6)
    setup.rounds[0] = [*setup.rounds[0], Step("archive")]


def _one_by_one(setup: Setup) -> None:
    """Lookups that need nothing of each other, each in a turn of its own."""
    setup.tools |= {name: Lookup(0.11) for name in _PLACES}
    setup.rounds = [*[[Step(name)] for name in _PLACES], *setup.rounds]


def _no_parallel(setup: Setup) -> None:
    _add_parallel(setup)
    setup.agent["max_parallel"] = 1


def _sequential_tools(setup: Setup) -> None:
    _add_parallel(setup, sequential=True)


def _asked_again(setup: Setup) -> None:
    """What is known already is looked for once more, twice."""
    setup.tools["account"] = Lookup(0.15)
    setup.rounds = [[Step("account"), *setup.rounds[0]], *setup.rounds[1:]]
    setup.again = 2


def _asked_by_all(setup: Setup) -> None:
    """Every run looks for the same, and finds the same."""
    setup.tools["terms"] = Lookup(0.45)
    setup.rounds[0] = [*setup.rounds[0], Step("terms", "world")]


def _failing_tool(setup: Setup) -> None:
    setup.tools["stock"] = Lookup(0.05, fails=0.5)
    setup.rounds[0] = [*setup.rounds[0], Step("stock")]


def _no_timeout(setup: Setup) -> None:
    setup.tools["partner"] = Lookup(0.05, tail=60.0, options={"timeout": None})
    setup.agent["tool_timeout"] = None
    setup.rounds[0] = [*setup.rounds[0], Step("partner")]


def _long_results(setup: Setup) -> None:
    """Results of thousands of tokens, one after the other."""
    setup.tools["pages"] = Lookup(0.03, size=12_000)
    setup.rounds = [*setup.rounds, *[[Step("pages", "result")] for _ in range(3)]]


def _clock(setup: Setup) -> None:
    setup.clock = True
    setup.instructions = max(setup.instructions, 1500)


def _full_cache(setup: Setup) -> None:
    """A service whose cache is always full of what others have sent."""
    setup.profile = replace(setup.profile, cache_tokens=max(setup.profile.cache_block, 128))
    setup.instructions = max(setup.instructions, 1500)


def _forty_tools(setup: Setup) -> None:
    setup.tools |= {f"extra_{number}": Lookup(0.02) for number in range(40)}


def _new_connections(setup: Setup) -> None:
    setup.kept = False
    setup.opening += 0.12


def _far_away(setup: Setup) -> None:
    setup.profile = replace(setup.profile, rtt_ms=170.0)
    setup.opening += 3 * 0.17


def _held_back(setup: Setup) -> None:
    setup.wires.append(HoldingBack)


def _one_place(setup: Setup) -> None:
    setup.at_once = 4
    setup.policy["max_concurrent"] = 1


def _rate_limit(setup: Setup) -> None:
    """Fewer requests a minute than are needed; the service tells so in time."""
    setup.service["rpm"] = 6


def _refused(setup: Setup) -> None:
    _add_fault(setup, "429:22%")


def _overloaded(setup: Setup) -> None:
    _add_fault(setup, "503:22%")


def _cut_replies(setup: Setup) -> None:
    _add_fault(setup, "cut:22%")


def _vain_hedges(setup: Setup) -> None:
    """The service becomes slower and slower for everybody, so that second requests are no faster than first ones."""
    turns, step = len(setup.rounds) + 1, 0.02 * _first_token(setup)
    usual: list[Fault | None] = [None] * (25 * turns)
    later = chain(usual, (Late(number * step) for number in count(1)))
    setup.runs = 50
    setup.policy |= {"hedge": True, "hedge_share": 1.0}
    setup.wires.append(lambda wire: FaultyTransport(wire, later))


def _one_slot(setup: Setup) -> None:
    setup.at_once = 4
    setup.profile = replace(setup.profile, slots=1)


FAULTS: dict[str, Planting] = {
    fault.name: fault
    for fault in (
        Planting("same questions", "repeated-answer", _same_questions),
        Planting("long chain", "too-many-turns", _long_chain),
        Planting("blocked loop", "loop-overhead", _blocked_loop),
        Planting("long question", "long-prompt", _long_question),
        Planting("slow reading", "slow-prefill", _slow_reading),
        Planting("slow writing", "slow-decode", _slow_writing),
        Planting("busy neighbours", "unstable-decode", _busy_neighbours),
        Planting("hiccups", "unstable-decode", _hiccups),
        Planting("flawed calls", "unparsable-calls", _flawed_calls),
        Planting("slow tool", "slow-tools", _slow_tool),
        Planting("one by one", "serial-turns", _one_by_one),
        Planting("no parallel", "serial-calls", _no_parallel),
        Planting("sequential tools", "serial-calls", _sequential_tools),
        Planting("asked again", "repeated-calls", _asked_again),
        Planting("asked by all", "repeated-calls", _asked_by_all),
        Planting("failing tool", "failing-tools", _failing_tool),
        Planting("no timeout", "no-timeout", _no_timeout),
        Planting("long results", "growing-context", _long_results),
        Planting("clock", "broken-prefix", _clock),
        Planting("full cache", "broken-prefix", _full_cache),
        Planting("forty tools", "too-many-tools", _forty_tools),
        Planting("new connections", "connections", _new_connections),
        Planting("far away", "far-away", _far_away),
        Planting("held back", "buffered-stream", _held_back),
        Planting("one place", "queue", _one_place),
        Planting("rate limit", "rate-limits", _rate_limit),
        Planting("refused", "rate-limits", _refused),
        Planting("overloaded", "failed-requests", _overloaded),
        Planting("cut replies", "failed-requests", _cut_replies),
        Planting("vain hedges", "vain-hedges", _vain_hedges),
        Planting("one slot", "full-service", _one_slot),
    )
}

_PLACES = ("north", "south", "east", "west")


def _add_parallel(setup: Setup, **options: Any) -> None:
    names = ("first", "second", "third")
    setup.tools |= {name: Lookup(0.2, options=options) for name in names}
    setup.rounds[0] = [*setup.rounds[0], *(Step(name) for name in names)]


def _add_fault(setup: Setup, fault: str) -> None:
    setup.service["faults"] = ",".join(filter(None, [setup.service.get("faults", ""), fault]))


def _first_token(setup: Setup) -> float:
    """About how long it takes (s), with a question as long as it is."""
    return setup.profile.ttft_ms(500 + 2 * setup.document) / 1e3
