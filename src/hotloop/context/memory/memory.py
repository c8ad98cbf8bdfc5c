"""Memory: what is known of users outside of their conversations, and found again when a request needs it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from typing import Literal

import msgspec

from hotloop.context.memory import cache, stored
from hotloop.context.memory.cache import MOST, Book, Cache
from hotloop.context.memory.fact import Fact, check_whose, fact_terms, new_fact
from hotloop.context.memory.place import File, InProcess, Place
from hotloop.context.memory.ranking import Search, best
from hotloop.context.memory.writer import Writer
from hotloop.embedding import Embed, read_embed
from hotloop.fields import Count, Seconds, check_fields, require

__all__ = ["Fact", "Memory"]

_LONG = 4000  # characters of a request that are looked at, at its beginning and its end


class _Settings(msgspec.Struct):
    limit: Count
    timeout: Seconds


class Memory:
    """Facts about users, kept in the SQLite file at `path`: None is memory.db in the user's state folder, ":memory:"
    keeps them in this process only.

    `limit` is how many facts a request gets, `timeout` how many seconds a run waits for them. Facts are found by their
    words; with `embed` also by what they mean: "local" is an embedding in the process, else it is a function from texts
    to vectors. May be shared by agents and threads, and its file by processes. Of the requests, `hits` needed nothing
    but what is in memory, `misses` the file; `dropped` users had to make room there for others.

    Raises ConfigError for what cannot be, and so does every method, also when the file cannot be used.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        limit: int = 8,
        timeout: float = 0.05,
        embed: Embed | Literal["local"] | None = None,
    ) -> None:
        check_fields(_Settings, {"limit": limit, "timeout": timeout}, "Memory")
        require(path is None or isinstance(path, str | Path), f"Memory(path={path!r}): give a path, or None.")
        self.limit, self.timeout = limit, timeout
        self._place: Place = InProcess() if path == ":memory:" else File(path)
        self._cache = Cache()
        self._writer = Writer(self._place, self._cache, self._wrote)
        function = read_embed(embed, "Memory")
        self._learner = None
        if function is not None:
            from hotloop.context.memory.meaning import Learner, Meaning

            self._learner = Learner(self._place, self._cache, Meaning(function))

    @property
    def hits(self) -> int:
        """Requests that needed nothing but what is in memory."""
        return self._cache.hits

    @property
    def misses(self) -> int:
        """Requests that needed the file."""
        return self._cache.misses

    @property
    def dropped(self) -> int:
        """Users that are no longer in memory, since others needed the room."""
        return self._cache.dropped

    async def warm(self) -> None:
        """Open the file, and load the embedding, before the first request needs them."""
        await self._place.read(bool)
        if self._learner is not None:
            await self._learner.meaning.of_request("hello", None)

    async def recall(self, request: str, *, user: str, session: str = "") -> list[Fact]:
        """The facts of this user that fit a request best, the best first; where fewer fit, the newest ones too.

        Facts that were told for a session are found in that session only.
        """
        check_whose(user, session)
        require(isinstance(request, str), f"The request is {request!r}; give some text.")
        request = request if len(request) <= _LONG else f"{request[: _LONG // 2]} {request[-_LONG // 2 :]}"
        search = Search(user, session, fact_terms(request), self.limit)
        book = self._cache.get(user, self._place.seen())
        if book is None:
            book = await self._place.read(partial(self._open, user))
        if book is None:
            return await self._search(await self._with_meaning(search, request))
        entries = book.seen_in(session)
        if len(entries) > self.limit:
            search = await self._with_meaning(search, request)
        return [entry.fact for entry in best(cache.candidates(entries, search), self.limit)]

    def remember(self, text: str, *, user: str, session: str = "") -> Fact:
        """Keep a fact about a user, for all of their sessions or for this one; it can be recalled at once.

        It is written to the file behind the caller. What is told again, in the same words, is one fact. Also raises
        ConfigError when too many facts wait to be written.
        """
        fact = new_fact(text, user, session)
        self._writer.add(fact)
        self._cache.told(fact)
        return fact

    async def forget(self, fact_id: str, *, user: str) -> bool:
        """Delete a fact of a user, where it is in the file; False if there is none with this id."""
        check_whose(user)
        await self._writer.flush()
        return await self._place.overwrite(partial(self._forget, user, fact_id))

    async def delete(self, user: str) -> int:
        """Delete all that is kept of a user, so that nothing of it is left in the file; how many facts that were.

        The whole file is written anew for that, which takes about 10 ms for each MB of it.
        """
        check_whose(user)
        await self._writer.flush()
        return await self._place.erase(partial(self._delete, user))

    async def export(self, user: str) -> list[Fact]:
        """All that is kept of a user, the oldest first; `msgspec.json.encode` writes it as JSON."""
        check_whose(user)
        await self._writer.flush()
        return await self._place.read(lambda db: [fact for fact, _ in stored.facts_of(db, user)])

    async def flush(self) -> None:
        """Return when all that was told before is in the file."""
        await self._writer.flush()
        if self._learner is not None:
            await self._learner.flush()

    async def aclose(self) -> None:
        """Write what waits to be written, and close the file; it is opened again when it is used again."""
        try:
            await self._writer.flush()
        finally:
            if self._learner is not None:
                await self._learner.aclose()
            await asyncio.to_thread(self._place.close)

    async def _search(self, search: Search) -> list[Fact]:
        """The facts in the file that fit best, of a user with too many to be kept in memory."""
        if self._writer.waiting(search.user):
            await self._writer.flush()
        return await self._place.read(lambda db: stored.read(db, best(stored.candidates(db, search), search.limit)))

    async def _with_meaning(self, search: Search, request: str) -> Search:
        """The search with the direction of the request, if there is an embedding, and one in half of the time."""
        if self._learner is None:
            return search
        meaning = self._learner.meaning
        return search._replace(maker=meaning.maker, direction=await meaning.of_request(request, self.timeout / 2))

    def _open(self, user: str, db: Connection) -> Book | None:
        """All facts of a user; None if they are too many to be kept in memory."""
        seen = self._place.watched()  # first: who is changed from here on is looked at once more
        book = self._cache.compared(db, user, seen)
        return self._read(user, db) if book is None else book

    def _read(self, user: str, db: Connection) -> Book | None:
        maker = ""
        if self._learner is not None:
            maker = self._learner.meaning.maker
            self._learner.look_at(user)
        facts = stored.facts_of(db, user, maker, MOST + 1)
        if len(facts) > MOST:
            return None
        book = Book(facts)
        self._cache.put(user, book)
        for fact in self._writer.waiting(user):  # those too that were told before the book was there to be told
            book.add(fact)
        self._cache.put(user, book)
        return book

    def _forget(self, user: str, fact_id: str, db: Connection) -> bool:
        with self._cache.own(db):
            self._cache.drop(user)
            return stored.forget(db, user, fact_id)

    def _delete(self, user: str, db: Connection) -> int:
        with self._cache.own(db):
            self._cache.drop(user)
            return stored.delete(db, user)

    def _wrote(self, facts: Sequence[Fact]) -> None:
        if self._learner is not None:
            for user in {fact.user for fact in facts}:
                self._learner.look_at(user)
