"""The sessions of one agent that are in memory, and the place where all of them are kept."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from hotloop.context.compaction import Compactor
from hotloop.context.conversation import Conversation
from hotloop.context.sessions.live import LiveSession
from hotloop.context.sessions.record import SessionKey, SessionStore
from hotloop.context.settings import Window
from hotloop.fields import require

_log = logging.getLogger("hotloop.sessions")

_MOST = 256  # that are kept in memory; others are read again


class OpenSessions:
    """The sessions of the agent `agent`, kept in the file `place` (None: the usual one, ":memory:": this process)."""

    def __init__(
        self,
        agent: str,
        place: str | Path | SessionStore | None,
        instructions: str,
        window: Window | None,
        compactor: Callable[[Conversation], Compactor],
    ) -> None:
        self._agent = agent
        self._place = place
        self._instructions = instructions
        self._window = window
        self._compactor = compactor
        self._live: dict[str, LiveSession] = {}

    @cached_property
    def store(self) -> SessionStore:
        """Where they are kept; opened when the first is asked for."""
        if self._place == ":memory:":
            from hotloop.context.sessions.inprocess import InProcessSessions

            return InProcessSessions()
        if self._place is None or isinstance(self._place, str | Path):
            if not self._agent:
                _log.warning("An agent without a name shares its sessions with all others that have none; give it one.")
            from hotloop.context.sessions.sqlite import SQLiteSessions

            return SQLiteSessions(self._place)
        return self._place

    def get(self, session_id: str) -> LiveSession:
        """The session with this id, begun when it first runs. Raises ConfigError for an id that is no text."""
        is_text = isinstance(session_id, str) and bool(session_id)
        require(is_text, f"The session's id is {session_id!r}; give some text.")
        found = self._live.pop(session_id, None)
        if found is None:
            found = LiveSession(
                SessionKey(self._agent, session_id),
                self.store,
                self._instructions,
                window=self._window,
                compactor=self._compactor,
            )
        self._live[session_id] = found
        if len(self._live) > _MOST:
            self._let_go()
        return found

    def _let_go(self) -> None:
        """Forget the session that was asked for least recently and does nothing; it is read again when it is needed."""
        idle = next((name for name, session in self._live.items() if session.idle), None)
        if idle is not None:
            del self._live[idle]

    async def aclose(self) -> None:
        """Give up what is being done beside the runs, and close the file; a store that was given is its owner's."""
        for session in list(self._live.values()):
            await session.aclose()
        if "store" in self.__dict__ and self.store is not self._place:
            await self.store.aclose()
