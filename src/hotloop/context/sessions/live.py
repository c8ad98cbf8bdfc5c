"""A conversation that lasts, as it is in memory: in step with what is kept of it, whatever becomes of a turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from hotloop.context.compaction import Compactor
from hotloop.context.conversation import Conversation, Summary
from hotloop.context.sessions.record import SessionKey, SessionState, SessionStore, StoredSession, StoredTurn
from hotloop.context.settings import Window
from hotloop.context.window import Relevance, left_out
from hotloop.context.zones import system_text
from hotloop.errors import ConfigError
from hotloop.fields import require
from hotloop.limit import finished
from hotloop.trace.ledger import Ledger


class LiveSession:
    """The conversation `key` of `store`; `instructions` are the agent's.

    Only who holds `store.writing(key)` may call what changes it.
    """

    def __init__(
        self,
        key: SessionKey,
        store: SessionStore,
        instructions: str,
        *,
        window: Window | None = None,
        compactor: Callable[[Conversation], Compactor],
    ) -> None:
        self.key = key
        self.store = store
        self.state = SessionState()
        self.user = ""
        self._instructions = instructions
        self._own: str | None = None  # instructions of this conversation alone; None: those that it had before
        self._window = window
        self._new_compactor = compactor
        self._relevance = Relevance()
        self._compactor: Compactor | None = None
        self._run: Conversation | None = None  # of the turn that is being answered
        self._resumed = self._stale = False

    def claim(self, user: str, instructions: str | None) -> None:
        """Whose it is ("": as before), and what instructions it has beside the agent's (None: as before).

        Raises ConfigError for a conversation of another user.
        """
        self._require_owner(self.state, user)
        self.user = user or self.user
        if instructions is not None and instructions != self._own_instructions:
            self._own, self._stale = instructions, True

    @property
    def owner(self) -> str:
        """Whose it is, "" as long as that is not known."""
        return self.user or self.state.user

    @property
    def idle(self) -> bool:
        """Whether nothing is being done for it."""
        return self._run is None and (self._compactor is None or not self._compactor.busy)

    async def load(self, ledger: Ledger) -> None:
        """Have what was kept last, by whatever process. Raises ConfigError for a conversation of another user."""
        fresh = self._compactor is None or self._stale
        stored = await self.store.load(self.key, 0 if fresh else self.state.version)
        if stored is not None or fresh:
            self._take(stored or StoredSession(SessionState(), []))
            if self._window is not None and self._window.relevant:
                await asyncio.to_thread(self._relevance.read, self._loaded().conversation)
        if stored is not None and stored.repairs:
            told = f"The session was damaged and is used as far as it is whole: {'; '.join(stored.repairs)}."
            ledger.facts.setdefault("warnings", []).append(told)
        ledger.mark("context", "session loaded")

    def begin(self, prompt: str, ledger: Ledger) -> Conversation:
        """The conversation that a turn is to be added to, with those earlier turns that the model is to see."""
        compactor = self._loaded()
        compactor.swap_in(ledger)
        self._run = compactor.conversation
        if self._window is not None and self._run.turns:
            self._run = self._windowed(self._run, self._window, prompt)
            summed = self._run.summary.turn if self._run.summary is not None else 0
            if left_out := self._run.number - summed - len(self._run.turns):
                ledger.facts["left_out"] = left_out
        return self._run

    def _windowed(self, conversation: Conversation, window: Window, prompt: str) -> Conversation:
        now = time.time()
        if window.relevant:
            return conversation.select(self._relevance.places(conversation, window, prompt, now))
        if count := left_out(conversation.turns, window, now):
            conversation.forget(count)
        return conversation

    def resume(self, conversation: Conversation) -> Conversation:
        """The conversation of a paused turn. Raises ConfigError if the session has gone on without it."""
        if conversation.number != self.state.version + 1:
            raise ConfigError(f"Session {self.key.id} has gone on without this run, so it cannot take its answer.")
        self._loaded().abandon()
        self._compactor, self._run, self._resumed = self._new_compactor(conversation), conversation, True
        return conversation

    def compactor_of(self, run: Conversation) -> Compactor:
        """What keeps the conversation of a run within its limit."""
        compactor = self._loaded()
        return compactor if run is compactor.conversation else self._new_compactor(run)

    async def commit(self, ledger: Ledger, user: str, tools: tuple[str, ...]) -> None:
        """Keep the turn that was answered. Raises SessionConflict if somebody else has written meanwhile."""
        run, live = self._run, self._loaded().conversation
        assert run is not None
        turn = StoredTurn(run.number, run.turns[-1].at, run.newest())
        state = SessionState(
            version=run.number,
            user=self.state.user or self.user or user,
            instructions=self._own_instructions,
            ids_given=run.ids_given,
            tools=tools,
            tasks=dict(run.tasks),
            summary=live.summary,
        )
        await finished(self.store.commit(self.key, state, turn, run.kept))
        ledger.mark("context", "session committed")
        self._run, self.state, live.fresh = None, state, False
        if self._resumed:
            self._stale = True
            return
        if run is not live:
            live.add_newest_of(run)
        self._loaded().look_ahead()

    def give_up(self) -> None:
        """Take back the turn that came to nothing, as if it had never begun."""
        run, self._run = self._run, None
        if run is None or self._compactor is None or run.number == self.state.version:
            return
        if self._resumed or run.covered:
            self._stale = True
        elif run is self._compactor.conversation:
            run.undo()

    async def history(self) -> list[StoredTurn]:
        """All turns that are kept. Raises ConfigError for a conversation of another user."""
        await self._require_own()
        return await self.store.turns(self.key)

    async def delete(self) -> bool:
        """Forget it for good; False if there was nothing of it. Raises as `history` does."""
        await self._require_own()
        self._stale = True
        return await self.store.delete(self.key)

    async def _require_own(self) -> None:
        if self.user and (stored := await self.store.load(self.key)) is not None:
            self._require_owner(stored.state, self.user)

    async def aclose(self) -> None:
        """Give up what is being done beside the turns."""
        if self._compactor is not None:
            await self._compactor.aclose()

    def _require_owner(self, state: SessionState, user: str) -> None:
        if not user:
            return
        of_other = f"Session {self.key.id} is of another user than {user}; give it another id."
        require({self.user, state.user} <= {"", user}, of_other)
        of_nobody = f"Session {self.key.id} was begun for no user, so it cannot be {user}'s; give it another id."
        require(state.version == 0 or state.user == user, of_nobody)

    @property
    def _own_instructions(self) -> str:
        return self.state.instructions if self._own is None else self._own

    def _loaded(self) -> Compactor:
        assert self._compactor is not None
        return self._compactor

    def _take(self, stored: StoredSession) -> None:
        if self._compactor is not None:
            self._compactor.abandon()
        self._stale = True  # until all is taken over
        self._require_owner(stored.state, self.user)
        self.state, summary = stored.state, stored.state.summary
        self._resumed = False
        self._relevance = Relevance()
        conversation = Conversation.of(system_text(self._instructions, self._own_instructions))
        if summary is not None:
            conversation.begin_with(summary)
        for turn in stored.turns:
            conversation.add_turn(_seen(turn, summary), turn.number, turn.at)
        conversation.number, conversation.ids_given = self.state.version, self.state.ids_given
        conversation.tasks, conversation.fresh = dict(self.state.tasks), True
        self._compactor = self._new_compactor(conversation)
        self._stale = False


def _seen(turn: StoredTurn, summary: Summary | None) -> bytes:
    """What of a turn a summary does not stand for."""
    if summary is None or turn.number != summary.turn + 1:
        return turn.messages
    return turn.messages[: summary.prompt] + turn.messages[summary.until :]
