"""For whom a run's tools work: what the guard, the cache and the audit log have to know of it."""

from __future__ import annotations

import msgspec


class Caller(msgspec.Struct, frozen=True):
    """The run, its agent, session and user ("" for none), and what it was granted."""

    run: str
    agent: str = ""
    session: str = ""
    user: str = ""
    grants: frozenset[str] = frozenset()
