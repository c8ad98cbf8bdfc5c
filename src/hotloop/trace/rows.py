"""The rows of a budget: which kinds of stages belong to each, and what a critical path has of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hotloop.trace.path import Step

ROWS: dict[str, tuple[str, ...]] = {
    "model": ("queue", "prefill", "decode"),
    "tools": ("tool", "wait", "guard", "approval", "cache"),
    "memory": ("memory",),
    "network": ("connect",),
    "other": ("context", "parse", "emit", "overhead"),
}
"""The rows, with their kinds of stages."""

ROW_OF = {kind: row for row, kinds in ROWS.items() for kind in kinds}
"""The row that each kind of stage belongs to."""

ALL_ROWS = (*ROWS, "total")
"""The rows, and the whole."""


def by_row(steps: Iterable[Step], since: int = 0) -> Counter[str]:
    """The nanoseconds of each row on these steps of a critical path, from a moment on, and their "total"."""
    spent: Counter[str] = Counter()
    for step in steps:
        took = step.end - max(step.start, since)
        if took > 0:
            spent[ROW_OF[step.stage.kind]] += took
            spent["total"] += took
    return spent


def by_turn(steps: Iterable[Step], since: int = 0) -> list[Counter[str]]:
    """The same for each turn, in their order."""
    turns: dict[int, list[Step]] = {}
    for step in steps:
        turns.setdefault(step.stage.turn, []).append(step)
    return [by_row(turns[number], since) for number in sorted(turns)]
