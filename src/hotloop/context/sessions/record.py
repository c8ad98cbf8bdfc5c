"""What is kept of a conversation that lasts, and what every place to keep it can do."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from hotloop.context.conversation import Summary
from hotloop.errors import SessionConflict


class SessionKey(msgspec.Struct, frozen=True):
    """One conversation: the name of its agent, "" for one without, and its own id."""

    agent: str
    id: str


class SessionState(msgspec.Struct, frozen=True):
    """A conversation but for its turns. `version` counts its commits, and is the number of its newest turn.

    `ids_given` is how many call ids it has used, `tools` what it offers (None: not chosen yet), `tasks` in which turn
    each task's instructions were given. `instructions` are those of this conversation alone, `user` whose it is. `born`
    tells it from others that had its id before or will have it after: it is given with its first turn, and stays.
    """

    version: int = 0
    born: str = ""
    user: str = ""
    instructions: str = ""
    ids_given: int = 0
    tools: tuple[str, ...] | None = None
    tasks: dict[str, int] = {}
    summary: Summary | None = None


class StoredTurn(msgspec.Struct, frozen=True, gc=False):
    """A prompt and all that came of it: messages as JSON objects parted by commas; `at` is Unix seconds."""

    number: int
    at: float
    messages: bytes


class StoredSession(msgspec.Struct, frozen=True):
    """A conversation as it was kept: its state, and the turns that its summary does not stand for, oldest first.

    `repairs` say what of it was not as it had been kept, and is whole again, in words; most often there are none.
    """

    state: SessionState
    turns: list[StoredTurn]
    repairs: tuple[str, ...] = ()


class SessionInfo(msgspec.Struct, frozen=True):
    """A conversation in a list: what it is, its turns, and their bytes with those of whole results.

    `created` and `updated` are when its first and its newest turn were kept, in Unix seconds.
    """

    agent: str
    id: str
    user: str
    turns: int
    bytes: int
    created: float
    updated: float


def size_of(turn: StoredTurn, results: Mapping[str, str]) -> int:
    """The bytes of a turn with those of the whole results beside it."""
    return len(turn.messages) + sum(len(content.encode()) for content in results.values())


def gone_on(key: SessionKey) -> SessionConflict:
    """That a turn cannot be kept, because another one was kept meanwhile."""
    return SessionConflict(f"Session {key.id} has gone on meanwhile, so that this turn was not kept; ask once more.")


class SessionStore(Protocol):
    """A place where conversations are kept, for any number of threads and event loops.

    Every method raises ConfigError when the place cannot be used.
    """

    def writing(self, key: SessionKey, *, wait: bool) -> AbstractAsyncContextManager[None]:
        """Write to a conversation, while nobody else does in whatever thread, event loop or process.

        Who comes first is served first, within a process. Raises SessionBusy if somebody writes and this one does not
        `wait`. A process that ends, however it does, writes no longer, and its children never did.
        """

    async def load(self, key: SessionKey, known: int = 0, born: str = "") -> StoredSession | None:
        """The conversation, repaired if it has to be; None if it is still that one, with this version.

        One that is not there has version 0, and neither turns nor anything else.
        """

    async def commit(self, key: SessionKey, state: SessionState, turn: StoredTurn, results: Mapping[str, str]) -> None:
        """Keep turn number `state.version`, the state that comes with it, and whole results by call id: all or nothing.

        Raises SessionConflict unless the version that is kept is the one before, of the conversation that was loaded.
        """

    async def result(self, key: SessionKey, call_id: str) -> str | None:
        """A whole result of which the model reads a part."""

    async def turns(self, key: SessionKey) -> list[StoredTurn]:
        """All turns, those too that a summary stands for; repaired."""

    async def sessions(self, agent: str | None = None, user: str | None = None) -> list[SessionInfo]:
        """The conversations of this agent and of this user (None: of all), the latest first."""

    async def delete(self, *keys: SessionKey) -> bool:
        """Forget conversations, with their results, for good; False if there was none of them.

        Whoever writes to one meanwhile gets SessionConflict.
        """

    async def aclose(self) -> None:
        """Close what is open; it is opened again when it is used again."""
