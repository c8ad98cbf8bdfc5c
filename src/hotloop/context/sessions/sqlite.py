"""Conversations kept in a SQLite file, for any number of processes of a machine."""

from __future__ import annotations

import asyncio
import logging
import re
import sqlite3
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

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
from hotloop.context.sessions.repair import checksum, whole_turns
from hotloop.context.sessions.writing import writers
from hotloop.database import Database, state_path
from hotloop.fields import require

_log = logging.getLogger("hotloop.sessions")

_SCHEMA = (
    """CREATE TABLE sessions (
        session INTEGER PRIMARY KEY AUTOINCREMENT, agent TEXT NOT NULL, id TEXT NOT NULL, user TEXT NOT NULL,
        born TEXT NOT NULL,
        version INTEGER NOT NULL CHECK (typeof(version) = 'integer'), bytes INTEGER NOT NULL, created REAL NOT NULL,
        updated REAL NOT NULL, state BLOB NOT NULL, UNIQUE (agent, id))""",
    "CREATE INDEX sessions_of_users ON sessions (user)",
    """CREATE TABLE turns (
        session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
        number INTEGER NOT NULL CHECK (typeof(number) = 'integer'), at REAL NOT NULL, checksum INTEGER,
        messages BLOB NOT NULL, PRIMARY KEY (session, number)) WITHOUT ROWID""",
    """CREATE TABLE results (
        session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE, call_id TEXT NOT NULL, content TEXT NOT NULL,
        PRIMARY KEY (session, call_id)) WITHOUT ROWID""",
)
# A turn that another program has added counts, too: the next one of ours must not have its number.
_FIND = """
    SELECT session, max(version, ifnull((SELECT max(number) FROM turns WHERE turns.session = sessions.session), 0)),
        CAST(born AS TEXT) FROM sessions WHERE agent = ? AND id = ?"""
_STATE = "SELECT user, CAST(state AS BLOB) FROM sessions WHERE session = ?"
_TURNS = """
    SELECT number, CAST(at AS REAL), CAST(messages AS BLOB), checksum FROM turns WHERE session = ? AND number > ?
    ORDER BY number"""
_BEGIN = """
    INSERT INTO sessions (agent, id, user, born, version, bytes, created, updated, state)
    VALUES (?, ?, '', ?, 0, 0, ?, 0, '')"""
_TURN = "INSERT INTO turns (session, number, at, checksum, messages) VALUES (?, ?, ?, ?, ?)"
_RESULTS = "INSERT OR REPLACE INTO results (session, call_id, content) VALUES (?, ?, ?)"
_GO_ON = "UPDATE sessions SET user = ?, version = ?, bytes = bytes + ?, updated = ?, state = ? WHERE session = ?"
_RESULT = "SELECT content FROM results JOIN sessions USING (session) WHERE agent = ? AND id = ? AND call_id = ?"
_INFO = "SELECT agent, id, user, version, bytes, created, updated FROM sessions"
_LATEST_FIRST = " ORDER BY updated DESC, session DESC"
_DELETE = "DELETE FROM sessions WHERE agent = ? AND id = ?"

_CALL_ID = re.compile(rb'"call(\d{5,9})"')
_decode_state = msgspec.json.Decoder(SessionState).decode


class SQLiteSessions:
    """The conversations in the file at `path` (None: sessions.db in the state folder), made when it is first used.

    Beside it is a lock file, which is always empty. Not for a folder that several machines share.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        require(str(path) != ":memory:", "SQLiteSessions keeps a file; for this process alone take InProcessSessions.")
        self._file = Database(state_path("sessions.db") if path is None else Path(path), "sessions", _SCHEMA, version=2)
        self.path = self._file.path
        self._writers = writers(Path(f"{self.path}.lock"))

    def writing(self, key: SessionKey, *, wait: bool) -> AbstractAsyncContextManager[None]:
        """See `SessionStore`."""
        return self._writers.writing(key, wait=wait)

    async def load(self, key: SessionKey, known: int = 0, born: str = "") -> StoredSession | None:
        """See `SessionStore`. A repair is logged as a warning, and changes nothing in the file."""
        stored = await self._file.read(partial(_load, key=key, known=known, born=born))
        if stored is not None and stored.repairs:
            _log.warning("Session %s is used as far as it is whole: %s.", key.id, "; ".join(stored.repairs))
        return stored

    async def commit(self, key: SessionKey, state: SessionState, turn: StoredTurn, results: Mapping[str, str]) -> None:
        """See `SessionStore`."""
        await self._file.do(partial(_commit, key=key, state=state, turn=turn, results=results))

    async def result(self, key: SessionKey, call_id: str) -> str | None:
        """See `SessionStore`."""
        found = await self._file.read(lambda db: db.execute(_RESULT, (key.agent, key.id, call_id)).fetchone())
        return None if found is None else str(found[0])

    async def turns(self, key: SessionKey) -> list[StoredTurn]:
        """See `SessionStore`."""
        return await self._file.read(partial(_all_turns, key=key))

    async def sessions(self, agent: str | None = None, user: str | None = None) -> list[SessionInfo]:
        """See `SessionStore`."""
        wanted = {name: value for name, value in (("agent", agent), ("user", user)) if value is not None}
        where = " WHERE " + " AND ".join(f"{name} = ?" for name in wanted) if wanted else ""
        query = _INFO + where + _LATEST_FIRST
        rows = await self._file.read(lambda db: db.execute(query, list(wanted.values())).fetchall())
        return [SessionInfo(*row) for row in rows]

    async def delete(self, *keys: SessionKey) -> bool:
        """See `SessionStore`. The whole file is written anew for that, which takes about 10 ms for each MB of it."""
        rows = [(key.agent, key.id) for key in keys]
        return await self._file.erase(lambda db: db.executemany(_DELETE, rows).rowcount > 0)

    async def aclose(self) -> None:
        """See `SessionStore`."""
        await asyncio.to_thread(self._file.close)


def _found(db: sqlite3.Connection, key: SessionKey) -> tuple[int, int, str]:
    """A conversation's number in the file, its version and which one it is; 0, 0 and "" if there is none."""
    return db.execute(_FIND, (key.agent, key.id)).fetchone() or (0, 0, "")


def _load(db: sqlite3.Connection, key: SessionKey, known: int, born: str) -> StoredSession | None:
    session, version, own = _found(db, key)
    if version == known and (own == born or not version):
        return None
    if not session:
        return StoredSession(SessionState(), [])
    state, lost = _state(db, session, version, own)
    start = state.summary.turn if state.summary else 0
    turns, odd = whole_turns(partial(db.execute, _TURNS, (session, start)), start + 1, version)
    stored = StoredSession(state, turns, lost + odd)
    return _consistent(stored) if stored.repairs else stored


def _state(db: sqlite3.Connection, session: int, version: int, born: str) -> tuple[SessionState, tuple[str, ...]]:
    user, state = db.execute(_STATE, (session,)).fetchone()
    try:
        return msgspec.structs.replace(_decode_state(state), version=version, born=born), ()
    except ValueError:
        return SessionState(version=version, born=born, user=str(user)), ("its state lost but for the user",)


def _consistent(stored: StoredSession) -> StoredSession:
    """The conversation with a state that fits turns which may be others than it was kept with."""
    used = [int(number) for turn in stored.turns for number in _CALL_ID.findall(turn.messages)]
    summary = stored.state.summary
    if summary is not None:  # what it stands for of the turn after it may be elsewhere now
        summary = msgspec.structs.replace(summary, prompt=0, until=0)
    state = msgspec.structs.replace(stored.state, ids_given=max(stored.state.ids_given, *used, 0), summary=summary)
    return msgspec.structs.replace(stored, state=state)


def _commit(
    db: sqlite3.Connection, key: SessionKey, state: SessionState, turn: StoredTurn, results: Mapping[str, str]
) -> None:
    session, version, born = _found(db, key)
    if version + 1 != state.version or (version and born != state.born):
        raise gone_on(key)
    now = time.time()
    if not session:
        session = db.execute(_BEGIN, (key.agent, key.id, state.born, now)).lastrowid or 0
    messages = turn.messages
    db.execute(_TURN, (session, state.version, turn.at, checksum(state.version, messages), messages))
    db.executemany(_RESULTS, [(session, call_id, content) for call_id, content in results.items()])
    size = size_of(turn, results)
    db.execute(_GO_ON, (state.user, state.version, size, now, msgspec.json.encode(state), session))


def _all_turns(db: sqlite3.Connection, key: SessionKey) -> list[StoredTurn]:
    session, version, _ = _found(db, key)
    return whole_turns(partial(db.execute, _TURNS, (session, 0)), 1, version)[0]
