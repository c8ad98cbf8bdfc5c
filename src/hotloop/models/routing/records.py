"""What is known of routes from before: which prompt was answered right by which, one line of JSON each."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from hotloop.errors import ConfigError


class Record(msgspec.Struct, frozen=True):
    """One prompt, answered by one route; `right` is whether that was good enough."""

    prompt: str
    route: str
    right: bool = True


def read_records(path: str | Path) -> list[Record]:
    """The records in a file of JSON lines, of which further fields do not matter.

    Raises ConfigError that names the line which is none.
    """
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"The records in {path} cannot be read: {error.strerror}.") from None
    records = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                records.append(msgspec.json.decode(line, type=Record))
            except msgspec.MsgspecError as error:
                raise ConfigError(f"{path}:{number}: not a record of prompt, route and right: {error}.") from None
    return records


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
