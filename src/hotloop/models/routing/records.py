"""What is known of routes from before: which prompt was answered right by which, one line of JSON each."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from hotloop.files import json_lines


class Record(msgspec.Struct, frozen=True):
    """One prompt, put to one route; `right` is whether its answer was good enough, None if the run failed."""

    prompt: str
    route: str
    right: bool | None


def read_records(path: str | Path) -> list[Record]:
    """The records in a file of JSON lines, of which further fields do not matter.

    Raises ConfigError that names the line which is none.
    """
    found: list[tuple[str, Record]] = json_lines(Path(path), Record)
    return [record for _, record in found]


def good_enough(records: Iterable[Record], routes: Iterable[str] = ()) -> dict[str, str]:
    """For each prompt the first route, in the order of `routes`, that was right.

    Prompts without one are left out, and those for which a route before it failed, which might have been right.
    Without `routes` their order is that in which the records name them: `hotloop eval` writes the cheapest first.
    """
    possible: dict[str, dict[str, bool | None]] = {}  # routes that were not wrong
    order = dict.fromkeys(routes)
    for record in records:
        order.setdefault(record.route)
        if record.right is not False:
            those = possible.setdefault(record.prompt, {})
            those[record.route] = record.right or those.get(record.route)
    first = {prompt: next(route for route in order if route in those) for prompt, those in possible.items()}
    return {prompt: route for prompt, route in first.items() if possible[prompt][route]}
