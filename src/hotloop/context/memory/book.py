"""The facts of one user, in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence, Set
from heapq import nlargest
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from hotloop.context.memory.fact import Fact, fact_terms
from hotloop.context.memory.ranking import Match

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST = 256
"""Facts of one user that are kept in memory; of more, each request reads those that it needs."""


class Entry(Struct, frozen=True, eq=False, gc=False):
    """A fact with its terms, and the vector of its meaning, as it is kept, if that is known."""

    fact: Fact
    terms: frozenset[str]
    vector: bytes | None = None

    @property
    def size(self) -> int:
        """About how many bytes it takes, most of them for the terms."""
        return 400 + 4 * len(self.fact.text) + 130 * len(self.terms) + len(self.vector or b"")


class Book:
    """All facts of one user, with their vectors, in the order in which they were first told.

    Whoever reads it sees it as it was at one moment, whatever other threads add meanwhile.
    """

    def __init__(self, facts: Iterable[tuple[Fact, bytes | None]]) -> None:
        self._entries = {fact.id: Entry(fact, fact_terms(fact.text), vector) for fact, vector in facts}
        self._changing = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, fact: Fact) -> None:
        """Add a fact, or take note that it was told again."""
        with self._changing:
            known = self._entries.get(fact.id)
            entry = Entry(fact, fact_terms(fact.text), known.vector if known is not None else None)
            self._entries = {**self._entries, fact.id: entry}

    def learn(self, vectors: Mapping[str, bytes]) -> None:
        """Take over the vectors of facts, by their ids."""
        with self._changing:
            known = self._entries
            learned = {name: replace(known[name], vector=vectors[name]) for name in known.keys() & vectors.keys()}
            self._entries = {**known, **learned}

    def seen_in(self, session: str) -> BookFacts:
        """Those that a request of this session may see."""
        return BookFacts([entry for entry in self._entries.values() if entry.fact.session in ("", session)])

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return sum(entry.size for entry in self._entries.values())


class BookFacts:
    """Facts in memory, to be ranked: see `Facts`."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    def size(self) -> tuple[int, int]:
        return len(self._entries), sum(len(entry.terms) for entry in self._entries)

    def sharing(self, asked: Set[str]) -> list[Match]:
        found = [(entry, asked & entry.terms) for entry in reversed(self._entries)]
        return [Match(entry, shared, len(entry.terms)) for entry, shared in found if shared]

    def nearest(self, direction: NDArray[Any], limit: int) -> list[Entry]:
        from hotloop.context.memory.meaning import nearest

        known = [(entry, entry.vector) for entry in reversed(self._entries) if entry.vector is not None]
        return [known[place][0] for place in nearest([vector for _, vector in known], direction, limit)]

    def newest(self, limit: int) -> list[Entry]:
        order = nlargest(limit, enumerate(self._entries), key=lambda each: (each[1].fact.at, each[0]))
        return [entry for _, entry in order]

    def read(self, keys: Sequence[Entry]) -> list[Fact]:
        return [entry.fact for entry in keys]
