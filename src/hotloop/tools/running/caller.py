"""For whom a run's tools work: what the guard, the cache and the audit log have to know of it."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from hotloop.errors import ConfigError
from hotloop.trace.w3c import Position


class Caller(msgspec.Struct, frozen=True, gc=False):
    """The run, its agent, session and user ("" for none), what it was granted, and its `position` in a W3C trace.

    The position is None where nobody who is part of one asked for the run and it records no spans.
    """

    run: str
    agent: str = ""
    session: str = ""
    user: str = ""
    grants: frozenset[str] = frozenset()
    position: Position | None = None


def read_grants(grants: object) -> frozenset[str]:
    """What a run is granted. Raises ConfigError for anything but a collection of names."""
    if (
        isinstance(grants, str)
        or not isinstance(grants, Collection)
        or not all(isinstance(each, str) for each in grants)
    ):
        raise ConfigError(f"grants is {grants!r}; give a set of names.")
    return frozenset(grants)
