"""A conversation that lasts from one prompt to the next, and from one process to the next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, Literal, Unpack
from weakref import WeakKeyDictionary

import msgspec

from hotloop.context.messages import as_list
from hotloop.errors import SessionBusy
from hotloop.events import Event
from hotloop.merging import Merged
from hotloop.models.transport import Emit, nobody
from hotloop.outlet import streamed
from hotloop.runner import run_here
from hotloop.runoptions import RunOptions
from hotloop.runs import Access, Result, Runs

if TYPE_CHECKING:
    from hotloop.context.sessions.live import LiveSession

Busy = Literal["queue", "reject", "merge"]

_MOST = 256  # runs of one session that are answered or wait


class Session:
    """A conversation that lasts. Each prompt is committed whole, or, when it fails or is cancelled, not at all.

    One run at a time writes, of whatever process: what becomes of others meanwhile, the agent's `busy` says.
    """

    def __init__(
        self, runs: Runs, live: LiveSession, busy: Busy, user: str = "", instructions: str | None = None
    ) -> None:
        self._runs = runs
        self._live = live
        self._asked = Access(live, user, instructions)
        self._under_way = 0
        self._merges = busy == "merge"
        self._merged: WeakKeyDictionary[asyncio.AbstractEventLoop, Merged] = WeakKeyDictionary()

    @property
    def id(self) -> str:
        """Its id, which is the agent's own."""
        return self._live.key.id

    async def run(self, prompt: str, **options: Unpack[RunOptions]) -> Result:
        """Answer one prompt in this conversation; see `Agent.run`.

        Raises SessionBusy and SessionConflict, besides; nothing of the turn was kept then.
        """
        return await self._ask(prompt, options)

    def stream(self, prompt: str, **options: Unpack[RunOptions]) -> AsyncGenerator[Event]:
        """Answer one prompt in this conversation, event by event; see `Agent.stream`."""
        return streamed(lambda emit: self._ask(prompt, options, emit))

    def run_sync(self, prompt: str, **options: Unpack[RunOptions]) -> Result:
        """`run` outside asyncio."""
        return run_here(self.run(prompt, **options))

    async def resume(self, run_id: str) -> Result:
        """Go on with a run of this conversation that was paused; see `Agent.resume`.

        Raises ConfigError if the conversation has gone on without it.
        """
        return await self._runs.resume(run_id, session=self._asked)

    def resume_stream(self, run_id: str) -> AsyncGenerator[Event]:
        """`resume`, event by event; see `Agent.stream`."""
        return streamed(lambda emit: self._runs.resume(run_id, emit, self._asked))

    async def history(self) -> list[dict[str, Any]]:
        """All messages of the conversation, those too that the model reads only a summary of."""
        turns = await self._live.history(self._asked.user)
        messages: list[dict[str, Any]] = msgspec.json.decode(as_list(b",".join(turn.messages for turn in turns)))
        return messages

    async def delete(self) -> bool:
        """Forget the conversation for good; False if there was none. It begins anew with its next prompt."""
        async with self._live.store.writing(self._live.key, wait=True):
            return await self._live.delete(self._asked.user)

    async def _ask(self, prompt: str, options: RunOptions, emit: Emit = nobody) -> Result:
        if self._under_way >= _MOST:
            raise SessionBusy(f"{_MOST} runs of session {self.id} are under way; wait until some have ended.")
        self._under_way += 1
        try:
            return await self._answered(prompt, options, emit)
        finally:
            self._under_way -= 1

    async def _answered(self, prompt: str, options: RunOptions, emit: Emit) -> Result:
        if self._merges:
            loop = asyncio.get_running_loop()
            merged = self._merged.get(loop)
            if merged is None:
                merged = self._merged[loop] = Merged(self._answer)
            user = options.get("user") or self._asked.user or self._live.state.user
            result: Result = await merged.ask(prompt, {**options, "user": user}, emit)
            return result
        return await self._answer(prompt, options, emit)

    async def _answer(self, prompt: str, options: RunOptions, emit: Emit) -> Result:
        return await self._runs.ask(prompt, options, emit, self._asked)
