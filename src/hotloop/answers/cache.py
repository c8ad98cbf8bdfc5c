"""Answers that are given again: kept for a while, for the same question, or for one that asks the same.

An answer is kept under all that it was made by, and only if nothing but the question went into it: see `fitness.py`.
Whatever is looked up for a question in other words is compared in its details first, and never by similarity alone.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from hotloop.answers.content import content_key
from hotloop.answers.fitness import unfit
from hotloop.answers.normal import normalized
from hotloop.embedding import Embed, directions, read_embed
from hotloop.errors import ConfigError
from hotloop.trace.ledger import Ledger
from hotloop.units import Clock, ms, ns

if TYPE_CHECKING:
    from numpy.typing import NDArray

_log = logging.getLogger("hotloop.answers")
_BYTES = 64 << 20
_NO_USER = 'No answer is ever kept: no run names its user. Give run(..., user=...), or AnswerCache(scope="global").'
_LONGEST_SIMILAR = 300  # characters of a question that may be meant by another: in more of them a detail is lost


class Key(NamedTuple):
    """A question: what makes its answer, whose it is ("" for everybody's), its words, and by which clock it ages."""

    maker: str
    whose: str
    words: str
    clock: Clock


class Asked(NamedTuple):
    """A question that was looked up; `text` is its kept answer, None if there is none."""

    question: str
    key: Key | None
    text: str | None = None
    vector: Any = None


class AnswerFacts(msgspec.Struct, frozen=True):
    """A kept answer that was given, as in the ledger's `facts["answer"]`.

    `asked` is the question that it was given to first, `similarity` the cosine of the two (1 for the same words),
    `saved_ms` what that answer had taken.
    """

    asked: str
    similarity: float
    saved_ms: float


class _Kept(NamedTuple):
    until: int
    question: str
    text: str
    took: int
    group: _Group | None
    size: int


class _Group(NamedTuple):
    """Questions that can have one answer."""

    maker: str
    whose: str
    clock: Clock
    content: tuple[str, ...]


class AnswerCache:
    """Answers to questions that were asked before, each for `ttl` seconds, at most `size` of them and 64 MiB.

    The least recently used goes first. With the scope "user" they are kept for each user, and for runs without one not
    at all; with "global" everybody shares them. `embed` also finds questions in other words: "local" is an embedding
    in the process, else it is a function from texts to vectors; `similarity` is the least cosine that counts. May be
    shared by agents and threads. `hits`, `reworded` (of the hits, those in other words), `misses`, `dropped` and
    `saved_ms` count. Raises ConfigError for what cannot be.
    """

    def __init__(
        self,
        *,
        ttl: float,
        size: int = 1000,
        scope: Literal["user", "global"] = "user",
        embed: Embed | Literal["local"] | None = None,
        similarity: float = 0.9,
    ) -> None:
        _require(_is_number(ttl) and 0 < ttl < float("inf"), "ttl", ttl, "seconds, more than 0")
        _require(type(size) is int and size >= 1, "size", size, "a whole number from 1 on")
        _require(scope in ("user", "global"), "scope", scope, '"user" or "global"')
        _require(_is_number(similarity) and 0 < similarity <= 1, "similarity", similarity, "a cosine above 0, up to 1")
        self.hits = self.reworded = self.misses = self.dropped = 0
        self.saved_ms = 0.0
        self._ttl, self._size, self._scope, self._similarity = ns(ttl), size, scope, similarity
        self._embed = read_embed(embed, "AnswerCache")
        self._length: int | None = None  # of all vectors, as the first one has it
        self._bytes = 0
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        self._groups: dict[_Group, dict[Key, Any]] = {}
        self._lock = threading.Lock()

    async def lookup(self, question: str, maker: str, user: str, ledger: Ledger) -> Asked:
        """The question, with its kept answer if there is one; give it to `store` if there is none.

        `maker` stands for all that makes the answer but the question: see `maker_of`. A kept answer, and the search
        for one in other words, are the ledger's `cache` stage.
        """
        if self._scope == "user" and not user:
            return Asked(question, None)
        key = Key(maker, user if self._scope == "user" else "", normalized(question), ledger.clock)
        asked = Asked(question, key)
        found = self._same(key)
        if found is not None:
            return asked._replace(text=self._given(found, 1.0, ledger))
        if self._embed is not None and len(question) <= _LONGEST_SIMILAR:
            asked = asked._replace(vector=await self._vector(question))
            found, similarity = self._most_similar(_group(key, question), asked.vector)
            if found is not None:
                self.reworded += 1
                return asked._replace(text=self._given(found, similarity, ledger))
            ledger.mark("cache", "nothing kept")
        self.misses += 1
        return asked

    def store(self, asked: Asked, text: str, finish_reason: str, ledger: Ledger, harmless: Collection[str]) -> None:
        """Keep the answer to a question that was looked up, or say in the ledger's `facts["answer_not_kept"]` why not.

        `harmless` are the tools that an answer may come from: read-only ones that need no approval.
        """
        if asked.key is None:
            ledger.facts["answer_not_kept"] = "the run names no user whose it is"
            if not self.hits and not self.misses:  # nor did any other, so it is likely to have been forgotten
                ledger.facts.setdefault("warnings", []).append(_NO_USER)
            return
        size = _size(asked, text)
        why = "its question is too long" if size > _BYTES else unfit(text, finish_reason, ledger, harmless)
        if why:
            ledger.facts["answer_not_kept"] = why
            return
        now = asked.key.clock()
        group = None if asked.vector is None else _group(asked.key, asked.question)
        self._keep(
            asked.key, asked.vector, _Kept(now + self._ttl, asked.question, text, now - ledger.start, group, size)
        )

    def _keep(self, key: Key, vector: Any, kept: _Kept) -> None:
        with self._lock:
            self._drop(key)
            self._kept[key] = kept
            self._bytes += kept.size
            if kept.group is not None:
                self._groups.setdefault(kept.group, {})[key] = vector
            while len(self._kept) > self._size or self._bytes > _BYTES:
                self._drop(next(iter(self._kept)))
                self.dropped += 1

    def _given(self, kept: _Kept, similarity: float, ledger: Ledger) -> str:
        saved = ms(kept.took)
        self.hits += 1
        self.saved_ms += saved
        ledger.facts["answer"] = AnswerFacts(kept.question, round(similarity, 4), saved)
        ledger.mark("cache", "kept answer")
        return kept.text

    def _same(self, key: Key) -> _Kept | None:
        """What is kept under this key, unless its time is over."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                return None
            if kept.until <= key.clock():
                self._drop(key)
                return None
            self._kept.move_to_end(key)
            return kept

    def _most_similar(self, group: _Group, vector: Any) -> tuple[_Kept | None, float]:
        """What is kept for the question most similar to this one, among those of the same content."""
        with self._lock:
            candidates = dict(self._groups.get(group, {}))
        if not candidates or vector is None:
            return None, 0.0
        import numpy as np

        cosines = np.stack(list(candidates.values())) @ vector
        best = int(cosines.argmax())
        similarity = min(float(cosines[best]), 1.0)
        return (self._same(list(candidates)[best]) if similarity >= self._similarity else None), similarity

    async def _vector(self, question: str) -> NDArray[Any] | None:
        """The question's direction, of length 1; None, with a warning, if there is none to be had."""
        assert self._embed is not None
        try:
            vectors = await asyncio.to_thread(directions, self._embed, [question], self._length)
        except ConfigError:
            raise
        except Exception as error:
            _log.warning("A question could not be embedded, so only its own words count: %r", error)
            return None
        self._length = vectors.shape[1]
        vector: NDArray[Any] = vectors[0]
        return vector

    def _drop(self, key: Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is None:
            return
        self._bytes -= kept.size
        if kept.group is not None:
            group = self._groups[kept.group]
            del group[key]
            if not group:
                del self._groups[kept.group]


def _group(key: Key, question: str) -> _Group:
    return _Group(key.maker, key.whose, key.clock, content_key(question))


def _size(asked: Asked, text: str) -> int:
    """About the bytes that a kept answer takes: its question is there twice, and its words as a key."""
    vector = 0 if asked.vector is None else int(asked.vector.nbytes)
    return 4 * (3 * len(asked.question) + len(text)) + vector


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _require(condition: bool, name: str, value: object, wanted: str) -> None:
    if not condition:
        raise ConfigError(f"AnswerCache({name}=...) is {value!r}; give {wanted}.")
