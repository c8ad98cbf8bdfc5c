"""Answers that are given again: kept for a while, for the same question, or for one that asks the same.

An answer is kept under all that it was made by, and only if nothing but the question went into it: see `fitness.py`.
Whatever is looked up for a question in other words is compared in its details first, and never by likeness alone.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from hotloop.answers.essence import Essence, essence
from hotloop.answers.fitness import unfit
from hotloop.answers.wording import wording
from hotloop.errors import ConfigError
from hotloop.trace.ledger import Ledger
from hotloop.units import Clock, ms, ns

if TYPE_CHECKING:
    from numpy.typing import NDArray

Embed = Callable[[Sequence[str]], Any]
"""Texts to vectors of equal length, one each; called in a thread."""

_log = logging.getLogger("hotloop.answers")
_LONGEST_ALIKE = 300  # characters of a question that may be meant by another: in more of them a detail is lost


class Key(NamedTuple):
    """A question: what makes its answer, whose it is ("" for everybody's), its wording, and by which clock it ages."""

    maker: str
    whose: str
    wording: str
    clock: Clock


class Asked(NamedTuple):
    """A question that was looked up; `text` is its kept answer, None if there is none."""

    question: str
    key: Key | None
    text: str | None = None
    vector: Any = None


class AnswerFacts(msgspec.Struct, frozen=True):
    """A kept answer that was given, as in the ledger's `facts["answer"]`.

    `asked` is the question that it was given to first, `likeness` how alike the two are (1 for the same wording),
    `saved_ms` what that answer had taken.
    """

    asked: str
    likeness: float
    saved_ms: float


class _Kept(NamedTuple):
    until: int
    question: str
    text: str
    took: int
    group: _Group | None
    vector: Any


class _Group(NamedTuple):
    """Questions that can have one answer."""

    maker: str
    whose: str
    clock: Clock
    essence: Essence


class AnswerCache:
    """Answers to questions that were asked before, each for `ttl` seconds, at most `size` of them.

    The least recently used goes first. With the scope "user" they are kept for each user, and for runs without one not
    at all; with "global" everybody shares them. `embed` also finds questions in other words: "local" is an embedding
    in the process, else it is a function from texts to vectors; `likeness` is the least cosine that counts. May be
    shared by agents and threads. `hits`, `alike` (of the hits, those in other words), `misses`, `dropped` and
    `saved_ms` count. Raises ConfigError for what cannot be.
    """

    def __init__(
        self,
        *,
        ttl: float,
        size: int = 1000,
        scope: Literal["user", "global"] = "user",
        embed: Embed | Literal["local"] | None = None,
        likeness: float = 0.9,
    ) -> None:
        _require(0 < ttl < float("inf"), "ttl", ttl, "seconds, more than 0")
        _require(size >= 1, "size", size, "a number from 1 on")
        _require(scope in ("user", "global"), "scope", scope, '"user" or "global"')
        _require(embed is None or embed == "local" or callable(embed), "embed", embed, '"local" or a function')
        _require(0 < likeness <= 1, "likeness", likeness, "a cosine above 0, up to 1")
        self.hits = self.alike = self.misses = self.dropped = 0
        self.saved_ms = 0.0
        self._ttl, self._size, self._scope, self._likeness = ns(ttl), size, scope, likeness
        self._embed = _local() if embed == "local" else embed
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
        key = Key(maker, user if self._scope == "user" else "", wording(question), ledger.clock)
        asked = Asked(question, key)
        found = self._same(key)
        if found is not None:
            return asked._replace(text=self._given(found, 1.0, ledger))
        if self._embed is not None and len(question) <= _LONGEST_ALIKE:
            asked = asked._replace(vector=await self._vector(question))
            found, likeness = self._most_alike(_group(key, question), asked.vector)
            if found is not None:
                self.alike += 1
                return asked._replace(text=self._given(found, likeness, ledger))
            ledger.mark("cache", "nothing kept")
        self.misses += 1
        return asked

    def store(self, asked: Asked, text: str, finish_reason: str, ledger: Ledger, harmless: Collection[str]) -> str:
        """Keep the answer to a question that was looked up; why it must not be kept, "" if it was.

        `harmless` are the tools that an answer may come from: read-only ones that need no approval.
        """
        if asked.key is None:
            return "nobody is named whose it is"
        if why := unfit(text, finish_reason, ledger, harmless):
            return why
        now = asked.key.clock()
        group = None if asked.vector is None else _group(asked.key, asked.question)
        kept = _Kept(now + self._ttl, asked.question, text, now - ledger.start, group, asked.vector)
        with self._lock:
            self._drop(asked.key)
            self._kept[asked.key] = kept
            if group is not None:
                self._groups.setdefault(group, {})[asked.key] = asked.vector
            while len(self._kept) > self._size:
                self._drop(next(iter(self._kept)))
                self.dropped += 1
        return ""

    def _given(self, kept: _Kept, likeness: float, ledger: Ledger) -> str:
        saved = ms(kept.took)
        self.hits += 1
        self.saved_ms += saved
        ledger.facts["answer"] = AnswerFacts(kept.question, round(likeness, 4), saved)
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

    def _most_alike(self, group: _Group, vector: Any) -> tuple[_Kept | None, float]:
        """What is kept for the question most like this one, among those of the same essence."""
        with self._lock:
            candidates = dict(self._groups.get(group, {}))
        if not candidates or vector is None:
            return None, 0.0
        import numpy as np

        alike = np.stack(list(candidates.values())) @ vector
        best = int(alike.argmax())
        likeness = min(float(alike[best]), 1.0)
        return (self._same(list(candidates)[best]) if likeness >= self._likeness else None), likeness

    async def _vector(self, question: str) -> NDArray[Any] | None:
        """The question's direction, of length 1; None, with a warning, if there is none to be had."""
        import numpy as np

        assert self._embed is not None
        try:
            vectors = await asyncio.to_thread(self._embed, [question])
            vector = np.asarray(vectors[0], dtype=np.float32)
        except ConfigError:
            raise
        except Exception as error:
            _log.warning("A question could not be embedded, so only its own wording counts: %r", error)
            return None
        return vector / (float(np.linalg.norm(vector)) or 1.0)

    def _drop(self, key: Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None and kept.group is not None:
            group = self._groups[kept.group]
            del group[key]
            if not group:
                del self._groups[kept.group]


def _group(key: Key, question: str) -> _Group:
    return _Group(key.maker, key.whose, key.clock, essence(question))


def _local() -> Embed:
    from hotloop.answers.embedding import embed_locally

    return embed_locally


def _require(condition: bool, name: str, value: object, wanted: str) -> None:
    if not condition:
        raise ConfigError(f"AnswerCache({name}=...) is {value!r}; give {wanted}.")
