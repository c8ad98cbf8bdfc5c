"""Conversations kept in this process, as long as it lives and there is room."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

import msgspec

from hotloop.context.sessions.record import (
    SessionInfo,
    SessionKey,
    SessionState,
    StoredSession,
    StoredTurn,
    gone_on,
    size_of,
)
from hotloop.context.sessions.writing import Writers
from hotloop.fields import require

_OVERHEAD = 1024  # bytes of an empty conversation, at most


class _Kept(msgspec.Struct):
    created: float
    updated: float = 0.0
    state: SessionState = SessionState()
    turns: list[StoredTurn] = []
    results: dict[str, str] = {}
    bytes: int = 0


class InProcessSessions:
    """Conversations of this process: at most `max_bytes` of them, the newest always.

    What was used least recently goes first, and counts in `dropped`. Raises ConfigError for what is no such number.
    """

    def __init__(self, max_bytes: int = 256 << 20) -> None:
        natural = type(max_bytes) is int and max_bytes > 0
        require(natural, f"InProcessSessions(max_bytes={max_bytes!r}): give a whole number, 1 or more.")
        self.dropped = 0
        self._most = max_bytes
        self._bytes = 0
        self._kept: dict[SessionKey, _Kept] = {}  # the one used last is the last
        self._lock = threading.Lock()
        self._writers = Writers()

    def writing(self, key: SessionKey, *, wait: bool) -> AbstractAsyncContextManager[None]:
        """See `SessionStore`."""
        return self._writers.writing(key, wait=wait)

    async def load(self, key: SessionKey, known: int = 0, born: str = "") -> StoredSession | None:
        """See `SessionStore`."""
        with self._lock:
            kept = self._used(key)
            if kept is None:
                return StoredSession(SessionState(), []) if known else None
            if (kept.state.version, kept.state.born) == (known, born):
                return None
            summary = kept.state.summary
            return StoredSession(kept.state, kept.turns[summary.turn if summary else 0 :])

    async def commit(self, key: SessionKey, state: SessionState, turn: StoredTurn, results: Mapping[str, str]) -> None:
        """See `SessionStore`."""
        added = size_of(turn, results)
        with self._lock:
            kept, now = self._used(key), time.time()
            before = kept.state if kept else SessionState(born=state.born)
            if (before.version + 1, before.born) != (state.version, state.born):
                raise gone_on(key)
            if kept is None:
                kept = self._kept[key] = _Kept(now)
            kept.state, kept.updated = state, now
            kept.turns.append(turn)
            kept.results.update(results)
            kept.bytes += added
            self._bytes += added + (_OVERHEAD if state.version == 1 else 0)
            self._make_room()

    async def result(self, key: SessionKey, call_id: str) -> str | None:
        """See `SessionStore`."""
        with self._lock:
            kept = self._used(key)
            return kept.results.get(call_id) if kept else None

    async def turns(self, key: SessionKey) -> list[StoredTurn]:
        """See `SessionStore`."""
        with self._lock:
            kept = self._used(key)
            return list(kept.turns) if kept else []

    async def sessions(self, agent: str | None = None, user: str | None = None) -> list[SessionInfo]:
        """See `SessionStore`."""
        with self._lock:
            infos = [
                SessionInfo(key.agent, key.id, kept.state.user, len(kept.turns), kept.bytes, kept.created, kept.updated)
                for key, kept in self._kept.items()
                if agent in (None, key.agent) and user in (None, kept.state.user)
            ]
        return sorted(infos, key=lambda info: info.updated, reverse=True)

    async def delete(self, *keys: SessionKey) -> bool:
        """See `SessionStore`."""
        with self._lock:
            return sum(map(self._forget, keys)) > 0

    async def aclose(self) -> None:
        """Nothing is open, and what is kept stays."""

    def _used(self, key: SessionKey) -> _Kept | None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._kept[key] = kept
        return kept

    def _forget(self, key: SessionKey) -> bool:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._bytes -= kept.bytes + _OVERHEAD
        return kept is not None

    def _make_room(self) -> None:
        while self._bytes > self._most and len(self._kept) > 1:
            self._forget(next(iter(self._kept)))
            self.dropped += 1
