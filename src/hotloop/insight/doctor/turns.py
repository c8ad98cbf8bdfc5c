"""Which turns a run could have done without: for calls that need nothing of each other, once more, or made wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from hotloop.insight.doctor.measures import Made, Run
from hotloop.trace.recording.provenance import call_of


class Turns(msgspec.Struct, frozen=True):
    """The calls of a run by turn, and what is wrong with them.

    `again` had been made before in the run, with the same result; `repeated` are the turns that had nothing else.
    `flawed` are turns whose calls were all refused before they began, so that the model had to write them again.
    `serial` are lone calls of neighbouring turns, of which the later one took nothing from the result before it.
    """

    calls: dict[int, list[Made]]
    again: list[Made] = []
    repeated: set[int] = set()
    flawed: set[int] = set()
    serial: list[tuple[Made, Made]] = []

    @property
    def needless(self) -> set[int]:
        """The turns that there need not be, for one of these reasons."""
        return self.repeated | self.flawed | {other.turn for _, other in self.serial}


def turns_of(run: Run) -> Turns:
    """The turns of a run."""
    calls: dict[int, list[Made]] = {}
    for made in run.calls:
        if made.call_id:  # it was not begun for a reply that came to nothing
            calls.setdefault(made.turn, []).append(made)
    again = list(_repeats(run.calls)) if len(run.calls) > 1 else []
    ids = {made.call_id for made in again}
    repeated = {turn for turn, some in calls.items() if all(made.call_id in ids for made in some)} if ids else set()
    flawed = {turn for turn, some in calls.items() if not some[0].worked and all(map(_is_flawed, some))}
    serial = [(one, other) for one, other in _lone(calls) if other.turn not in repeated and not _is_flawed(other)]
    return Turns(calls, again, repeated, flawed, serial)


def known_before(runs: Sequence[Run], answered: Sequence[bool]) -> list[list[Made]]:
    """Calls that an earlier run had made for the first time, with the same result.

    Not of runs that were `answered` before: these need not be done at all.
    """
    known: dict[tuple[str, str, str], str] = {}
    found = []
    for run, whole in zip(runs, answered, strict=True):
        name = run.record.name
        of_others: list[Made] = []
        new: dict[tuple[str, str, str], str] = {}
        for made in run.calls:
            key = (name, made.name, made.said.digest)
            if not (made.known and made.worked) or key in new:
                continue
            if not whole and known.get(key) == made.said.result_digest and _only_reads(run, made):
                of_others.append(made)
            new[key] = made.said.result_digest
        known |= new
        found.append(of_others)
    return found


def _repeats(calls: Sequence[Made]) -> Iterator[Made]:
    seen: set[tuple[str, str, str]] = set()
    for made in calls:
        if made.worked and made.known:
            key = (made.name, made.said.digest, made.said.result_digest)
            if key in seen:
                yield made
            seen.add(key)


def _lone(calls: dict[int, list[Made]]) -> Iterator[tuple[Made, Made]]:
    """Lone calls of neighbouring turns, the later of which is known to have taken nothing from the one before."""
    for turn, after in pairwise(sorted(calls)):
        if after == turn + 1 and len(calls[turn]) == len(calls[after]) == 1:
            one, other = calls[turn][0], calls[after][0]
            sources, apart = other.said.sources, other.start >= one.end  # not if a sub-agent makes it within the other
            if apart and sources is not None and call_of(one.call_id) not in sources and not _is_flawed(one):
                yield one, other


def _is_flawed(made: Made) -> bool:
    """Whether nothing could be made of what the model wrote: no such tool, or arguments that do not fit."""
    return made.outcome == "error" and not made.worked


def _only_reads(run: Run, made: Made) -> bool:
    """Whether a result of it may be kept, as far as that is known."""
    facts = run.record.tools.get(made.name)
    return facts is None or not run.ours or facts.read_only
