"""The users of whom something was asked or told last, in memory: so that most requests need neither file nor thread."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping

from hotloop.context.memory.book import MOST, Book
from hotloop.context.memory.fact import Fact
from hotloop.context.memory.stored import Changes

_BYTES = 32 << 20
Stamp = tuple[int, int] | None
"""What the file is known by while nobody writes to it, None if that cannot be told."""


class Front:
    """Books of users, the least recently used dropped first; may be used from any thread.

    They are right as long as the file has the stamp that it had when they were compared with it last, by `refresh`.
    `hits` were found and right, `misses` were not, `dropped` had to make room. `seen` is the number of the last change
    in the file that they have.
    """

    def __init__(self) -> None:
        self.hits = self.misses = self.dropped = 0
        self.seen = 0
        self._stamp: Stamp = None
        self._books: OrderedDict[str, tuple[Book, int]] = OrderedDict()
        self._size = 0
        self._lock = threading.RLock()

    def get(self, user: str, stamp: Stamp) -> Book | None:
        """The book of a user, if it is right while the file has this stamp."""
        with self._lock:
            book = self.known(user) if stamp is not None and stamp == self._stamp else None
            if book is None:
                self.misses += 1
            else:
                self.hits += 1
            return book

    def known(self, user: str) -> Book | None:
        """The book of a user, as it was when `refresh` was called last."""
        with self._lock:
            found = self._books.get(user)
            if found is None:
                return None
            self._books.move_to_end(user)
            return found[0]

    def refresh(self, stamp: Stamp, changes: Changes) -> None:
        """Drop what others have changed since; `stamp` is what the file had before one looked for changes."""
        with self._lock:
            for user in list(self._books) if changes.users is None else changes.users:
                self.drop(user)
            self.seen, self._stamp = changes.latest, stamp

    def put(self, user: str, book: Book, latest: int) -> None:
        """Keep the book of a user with all changes up to the number `latest`, unless there are others by now."""
        with self._lock:
            if latest != self.seen:
                return
            self._keep(user, book)

    def told(self, fact: Fact) -> None:
        """A user's fact is new, or was told again."""
        with self._lock:
            book = self.known(fact.user)
            if book is not None:
                book.add(fact)
                self.grown(fact.user, book)

    def learned(self, user: str, vectors: Mapping[str, bytes]) -> None:
        """Vectors of a user's facts, by their ids, are known now."""
        with self._lock:
            book = self.known(user)
            if book is not None:
                book.learn(vectors)
                self.grown(user, book)

    def grown(self, user: str, book: Book) -> None:
        """The book of a user has grown, if it is here."""
        with self._lock:
            if self.known(user) is book:
                self._keep(user, book)

    def wrote(self, change: int) -> None:
        """The change of this number was ours: the books have it."""
        with self._lock:
            if self.seen == change - 1:
                self.seen = change

    def drop(self, user: str) -> None:
        """Keep nothing of a user."""
        with self._lock:
            _, size = self._books.pop(user, (None, 0))
            self._size -= size

    def _keep(self, user: str, book: Book) -> None:
        """Keep a book that is new or has grown, unless it is too long, and make room for it."""
        self.drop(user)
        if len(book) > MOST:
            return
        self._books[user] = book, book.size
        self._size += book.size
        while self._size > _BYTES:
            self.drop(next(iter(self._books)))
            self.dropped += 1
