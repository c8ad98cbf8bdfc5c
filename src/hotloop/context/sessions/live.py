"""A conversation that lasts, as it is in memory: in step with what is kept of it, whatever becomes of a turn."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from secrets import token_hex

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

_log = logging.getLogger("hotloop.sessions")


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
        self._instructions = instructions
        self._own = ""  # instructions of this conversation alone
        self._window = window
        self._new_compactor = compactor
        self._relevance = Relevance()
        self._compactor: Compactor | None = None
        self._run: Conversation | None = None  # of the turn that is being answered
        self._edits = 0  # of it when it began
        self._resumed = self._stale = False

    @property
    def idle(self) -> bool:
        """Whether nothing is being done for it."""
        return self._run is None and (self._compactor is None or not self._compactor.busy)

    async def load(self, ledger: Ledger, user: str = "", instructions: str | None = None) -> None:
        """Have what was kept last, by whatever process, for `user` ("": for anybody).

        `instructions` are those of this conversation alone, beside the agent's (None: those that it had before).
        Raises ConfigError for a conversation of another user.
        """
        fresh = self._compactor is None or self._stale
        stored = await self._newer(fresh)
        state = self.state if stored is None else stored.state
        self.require_owner(user, state)
        own = state.instructions if instructions is None else instructions
        if stored is None and (fresh or own != self._own):
            stored = await self._newer(fresh=True) or StoredSession(SessionState(), [])
        if stored is not None:
            self._take(stored, own)
            if self._window is not None and self._window.relevant:
                await asyncio.to_thread(self._relevance.read, self._loaded().conversation)
            if stored.repairs:
                told = f"The session was damaged and is used as far as it is whole: {'; '.join(stored.repairs)}."
                ledger.facts.setdefault("warnings", []).append(told)
        ledger.mark("context", "session loaded")

    async def _newer(self, fresh: bool) -> StoredSession | None:
        """What is kept, if it is not what is known already."""
        known = (0, "") if fresh else (self.state.version, self.state.born)
        return await self.store.load(self.key, *known)

    def require_owner(self, user: str, state: SessionState | None = None) -> None:
        """Raises ConfigError if the conversation, as far as it is known, is not of this user ("": of anybody)."""
        owner, version = (state or self.state).user, (state or self.state).version
        if user and version:
            of_whom = f"of another user than {user}" if owner else f"of no user, so it cannot become {user}'s"
            require(owner == user, f"Session {self.key.id} is {of_whom}; give it another id.")

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
        self._edits = self._run.edits
        return self._run

    def _windowed(self, conversation: Conversation, window: Window, prompt: str) -> Conversation:
        now = time.time()
        if window.relevant:
            return conversation.select(self._relevance.places(conversation, window, prompt, now))
        if count := left_out(conversation.turns, window, now):
            conversation.forget(count)
        return conversation

    def resume(self, conversation: Conversation) -> Conversation:
        """The conversation of a paused turn. Raises ConfigError if the session has gone on without it, or is gone."""
        goes_on = (conversation.number, conversation.born) == (self.state.version + 1, self.state.born)
        gone = f"Session {self.key.id} has gone on without this run, or was deleted, so it cannot take its answer."
        require(goes_on, f"{gone} Discard the run.")
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
            born=self.state.born if self.state.version else token_hex(8),
            user=self.state.user if self.state.version else user,
            instructions=self._own,
            ids_given=run.ids_given,
            tools=tools,
            tasks=dict(run.tasks),
            summary=live.summary,
        )
        await finished(self.store.commit(self.key, state, turn, run.kept))
        ledger.mark("context", "session committed")
        self._run, self.state, live.fresh, live.born = None, state, False, state.born
        if self._resumed:
            self._stale = True
            return
        if run is not live:
            live.add_newest_of(run)
        try:
            self._loaded().look_ahead()
        except ConfigError as error:  # of a tokenizer: the turn is kept all the same
            _log.warning("Whether session %s has to be summarized is not known: %s", self.key.id, error)

    def give_up(self) -> None:
        """Take back the turn that came to nothing, as if it had never begun."""
        run, self._run = self._run, None
        if run is None or self._compactor is None or run.number == self.state.version:
            return
        if self._resumed or run.edits != self._edits:  # what was left out for it comes back
            self._stale = True
        elif run is self._compactor.conversation:
            run.undo()

    async def history(self, user: str) -> list[StoredTurn]:
        """All turns that are kept. Raises ConfigError for a conversation of another user."""
        await self._require_own(user)
        return await self.store.turns(self.key)

    async def delete(self, user: str) -> bool:
        """Forget it for good; False if there was nothing of it. Raises as `history` does."""
        await self._require_own(user)
        self.state, self._stale = SessionState(), True
        return await self.store.delete(self.key)

    async def _require_own(self, user: str) -> None:
        if user:
            stored = await self._newer(fresh=False)
            self.require_owner(user, None if stored is None else stored.state)

    async def aclose(self) -> None:
        """Give up what is being done beside the turns."""
        if self._compactor is not None:
            await self._compactor.aclose()

    def _loaded(self) -> Compactor:
        assert self._compactor is not None
        return self._compactor

    def _take(self, stored: StoredSession, own: str) -> None:
        before = self._compactor if stored.state.born == self.state.born else None
        if self._compactor is not None and before is None:
            self._compactor.abandon()
        self.state, summary, self._own = stored.state, stored.state.summary, own
        self._relevance = Relevance()
        conversation = Conversation.of(system_text(self._instructions, own))
        if summary is not None:
            conversation.begin_with(summary)
        conversation.add_turns((_seen(turn, summary), turn.number, turn.at) for turn in stored.turns)
        conversation.number, conversation.ids_given = self.state.version, self.state.ids_given
        conversation.tasks, conversation.fresh, conversation.born = dict(self.state.tasks), True, self.state.born
        self._compactor = self._new_compactor(conversation)
        if before is not None:
            self._compactor.go_on(before)
        self._resumed = self._stale = False


def _seen(turn: StoredTurn, summary: Summary | None) -> bytes:
    """What of a turn a summary does not stand for."""
    if summary is None or turn.number != summary.turn + 1:
        return turn.messages
    return turn.messages[: summary.prompt] + turn.messages[summary.until :]
