"""A comparison of two bills as tables, and its verdict in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hotloop.commands.billtables import (
    AMOUNTS,
    NOTHING,
    SURELY,
    TIMES,
    agents,
    amounts,
    amounts_grid,
    budget_grid,
    costs,
    fails,
    failures,
    failures_grid,
    figure,
    named,
    runs,
    signed,
    times,
)
from hotloop.commands.grids import Grid
from hotloop.insight.bill.bill import Row
from hotloop.insight.bill.comparing import Change, Diff
from hotloop.words import counted

_CHANGED = ("worse", "better")
_VERDICTS = ("worse", "better", "too few runs", "same")


class _Both(NamedTuple):
    """A row in both bills; None where it is not."""

    before: Row | None
    after: Row | None

    @property
    def row(self) -> Row:
        found = self.after or self.before
        assert found is not None
        return found

    @property
    def fails(self) -> bool:
        return any(fails(row) for row in (self.before, self.after) if row is not None)

    def cells(self, told: Callable[[Row], tuple[str, ...]]) -> tuple[str, ...]:
        """What is told of it before and after."""
        sides = [told(row) for row in (self.before, self.after) if row is not None]
        return tuple(" → ".join(dict.fromkeys(cell)) for cell in zip(*sides, strict=True))


def diff_head(diff: Diff) -> str:
    """What is compared, in a line."""
    before, after = diff.before, diff.after
    return f"{after.version} against {before.version} · {agents(after)} · {runs(after)} against {runs(before)}"


def diff_grids(diff: Diff) -> list[Grid]:
    """The tables of a comparison: what has changed, the budget, everything before and after."""
    changed = [change for change in diff.changes if change.verdict in _CHANGED]
    both = _rows(diff)
    all_times = [(*_what(each), _verdict(each, diff.changes), *each.cells(times)) for each in both]
    costly = [each for each in both if costs(each.row)]
    return [
        *([_changes(changed)] if changed else []),
        *budget_grid(diff.limits),
        Grid("Times of a run, a request, a call", ("", "owner", "verdict", *TIMES), all_times, texts=3),
        *amounts_grid([(*_what(each), *each.cells(amounts)) for each in costly]),
        *failures_grid([(*_what(each), *each.cells(failures)) for each in both if each.fails]),
    ]


def verdict(diff: Diff) -> str:
    """The verdict, in a sentence or two."""
    beyond = sum(change.beyond for change in diff.changes)
    newly = [limit.name for limit in diff.limits if limit.newly]
    told = [f"{counted(beyond, 'figure')} worse by more than {diff.tolerance:.0%}"] if beyond else []
    told += [f"newly over its budget: {', '.join(newly)}"] if newly else []
    few = sum(change.verdict == "too few runs" for change in diff.changes)
    held = f"Held: nothing is surely worse by more than {diff.tolerance:.0%}."
    unsaid = f" Of {counted(few, 'figure')} nothing can be said: there are too few runs." if few else ""
    return (f"Not held: {'; '.join(told)}." if told else held) + unsaid


def _rows(diff: Diff) -> list[_Both]:
    before = {(row.kind, row.name): row for row in diff.before.rows}
    return [_Both(before.get((row.kind, row.name)), row) for row in diff.after.rows] + [
        _Both(row, None) for row in diff.gone
    ]


def _what(both: _Both) -> tuple[str, str]:
    return named(both.row.kind, both.row.name), both.row.owner or NOTHING


def _verdict(both: _Both, changes: Sequence[Change]) -> str:
    """The worst that can be said of a row."""
    if both.before is None or both.after is None:
        return "new" if both.before is None else "gone"
    found = {change.verdict for change in changes if (change.kind, change.name) == (both.row.kind, both.row.name)}
    return next((each for each in _VERDICTS if each in found), NOTHING)


def _changes(changed: Sequence[Change]) -> Grid:
    headings = ("", "owner", "verdict", "before", "after", "change", SURELY, "costs a run")
    return Grid("Changed beyond chance, the costliest first", headings, list(map(_change, changed)), texts=3)


def _change(change: Change) -> tuple[str, ...]:
    measure = change.measure
    is_time = measure in ("p50", "p95")
    return (
        f"{named(change.kind, change.name)} {AMOUNTS.get(measure, measure)}",
        change.owner or NOTHING,
        change.verdict,
        figure(measure, change.before),
        figure(measure, change.after),
        signed(measure, change.after - change.before),
        f"{signed(measure, change.low)} to {signed(measure, change.high)}",
        signed("p50", change.costs) if is_time else NOTHING,
    )
