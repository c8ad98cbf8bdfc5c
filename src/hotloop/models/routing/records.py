"""What is known of routes from before: which prompt was answered right by which, one line of JSON each."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from hotloop.files import json_lines


class Record(msgspec.Struct, frozen=True):
    """One prompt, answered by one route; `right` is whether that was good enough."""

    prompt: str
    route: str
    right: bool


def read_records(path: str | Path) -> list[Record]:
    """The records in a file of JSON lines, of which further fields do not matter.

    Raises ConfigError that names the line which is none.
    """
    found: list[tuple[str, Record]] = json_lines(Path(path), Record)
    return [record for _, record in found]


def good_enough(records: Iterable[Record], routes: Iterable[str] = ()) -> dict[str, str]:
    """For each prompt the first route, in the order of `routes`, that was right; prompts without one are left out.

    Without `routes` their order is that in which the records name them: `hotloop eval` writes the cheapest first.
    """
    right: dict[str, set[str]] = {}
    order = dict.fromkeys(routes)
    for record in records:
        order.setdefault(record.route)
        right.setdefault(record.prompt, set()).update([record.route] if record.right else [])
    return {prompt: next(route for route in order if route in those) for prompt, those in right.items() if those}
