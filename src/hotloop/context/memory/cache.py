"""The users of whom something was asked or told last, in memory: so that most requests need neither file nor thread."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from heapq import nlargest
from sqlite3 import Connection

from msgspec import Struct
from msgspec.structs import replace

from hotloop.context.memory.fact import Fact, fact_terms
from hotloop.context.memory.place import Mark, mark
from hotloop.context.memory.ranking import Candidates, Match, Search

MOST = 256
"""Facts of one user that are kept in memory; of more, each request reads those that it needs."""

_BYTES = 32 << 20


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

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return sum(entry.size for entry in self._entries.values())

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

    def seen_in(self, session: str) -> list[Entry]:
        """Those that a request of this session may see."""
        return [entry for entry in self._entries.values() if entry.fact.session in ("", session)]


def candidates(entries: list[Entry], search: Search) -> Candidates:
    """Those that may fit, of facts in memory; a key is an entry."""
    latest = entries[::-1]
    found = [(entry, search.terms & entry.terms) for entry in latest]
    sharing = [Match(entry, shared, len(entry.terms)) for entry, shared in found if shared]
    newest = [] if len(sharing) >= search.limit else _newest(latest, search.limit)
    terms = sum(len(entry.terms) for entry in entries)
    return Candidates(len(entries), terms, sharing, _nearest(latest, search), newest)


def _newest(latest: list[Entry], limit: int) -> list[Entry]:
    return nlargest(limit, latest, key=lambda entry: entry.fact.at)  # of equals, those that come first


def _nearest(latest: list[Entry], search: Search) -> list[Entry]:
    if search.direction is None:
        return []
    from hotloop.context.memory.meaning import nearest

    known = [(entry, entry.vector) for entry in latest if entry.vector is not None]
    return [known[place][0] for place in nearest([vector for _, vector in known], search.direction, search.limit)]


class Cache:
    """Books of users, the least recently used dropped first, and all of them when another process changes the file.

    May be used from any thread. `hits` were found and right, `misses` were not, `dropped` had to make room.
    """

    def __init__(self) -> None:
        self.hits = self.misses = self.dropped = 0
        self._seen: Mark | None = None  # of the connection that watches the file
        self._has: Mark | None = None  # of the connection that reads and writes it
        self._books: OrderedDict[str, tuple[Book, int]] = OrderedDict()
        self._size = 0
        self._lock = threading.RLock()

    def get(self, user: str, now: Mark | None) -> Book | None:
        """The book of a user, unless there is none that is right: `now` is what the file is known by to a watcher."""
        with self._lock:
            book = self._known(user) if now is not None and now == self._seen else None
            if book is None:
                self.misses += 1
            else:
                self.hits += 1
            return book

    def compared(self, db: Connection, user: str, seen: Mark | None) -> Book | None:
        """The book of a user, if it is right by what `db` reads; `seen` is what a watcher has seen before that."""
        has = mark(db)
        with self._lock:
            if has != self._has:
                self._books.clear()
                self._size = 0
            self._has, self._seen = has, seen
            return self._known(user)

    @contextmanager
    def own(self, db: Connection) -> Iterator[None]:
        """A change that is made within a transaction: it leaves those books right that were right before."""
        before = mark(db)
        yield
        with self._lock:
            if self._has == before:
                self._has = mark(db)

    def put(self, user: str, book: Book) -> None:
        """Keep the book of a user, new or grown, unless it is too long, and make room for it."""
        with self._lock:
            self.drop(user)
            if len(book) > MOST:
                return
            self._books[user] = book, book.size
            self._size += book.size
            while self._size > _BYTES:
                self.drop(next(iter(self._books)))
                self.dropped += 1

    def told(self, fact: Fact) -> None:
        """A user's fact is new, or was told again."""
        with self._lock:
            book = self._known(fact.user)
            if book is not None:
                book.add(fact)
                self.put(fact.user, book)

    def learned(self, user: str, vectors: Mapping[str, bytes]) -> None:
        """Vectors of a user's facts, by their ids, are known now."""
        with self._lock:
            book = self._known(user)
            if book is not None:
                book.learn(vectors)
                self.put(user, book)

    def drop(self, user: str) -> None:
        """Keep nothing of a user."""
        with self._lock:
            _, size = self._books.pop(user, (None, 0))
            self._size -= size

    def _known(self, user: str) -> Book | None:
        found = self._books.get(user)
        if found is None:
            return None
        self._books.move_to_end(user)
        return found[0]
