"""What a run that was paused may do: what people decided, what has run already, and what it does now, kept at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from hotloop.errors import ToolRefused
from hotloop.tools.running.result import ToolResult

if TYPE_CHECKING:
    from hotloop.tools.approvals.store import ApprovalStore, Decision, PausedRun, PendingCall

_UNKNOWN = "{} was begun before and did not end, so whether it took effect is not known. It is not run again."


class BegunBefore(ToolRefused):
    """The call was begun, and what came of it is not known."""


@asynccontextmanager
async def held(store: ApprovalStore, run_id: str) -> AsyncIterator[None]:
    """Nobody else resumes this run meanwhile. Raises RunError if somebody does, ConfigError if it does not wait."""
    lease = store.lease(run_id)
    await asyncio.to_thread(lease.__enter__)  # by hand, because each of its ends waits for the disk
    try:
        yield
    finally:
        await asyncio.to_thread(lease.__exit__, None, None, None)


class RunJournal:
    """The decisions about one paused run, and what it begins and what came of it, which outlive the process."""

    def __init__(self, store: ApprovalStore, paused: PausedRun) -> None:
        self._store = store
        self._run_id = paused.run_id
        self._agent = paused.agent
        self._asked = {each.call.call_id: each for each in paused.calls}

    def asked(self, call_id: str) -> bool:
        """Whether a person was asked about this call, so that what they said holds."""
        return call_id in self._asked

    def decision(self, call: PendingCall) -> Decision | None:
        """What a person said about exactly this call; None if nobody did."""
        asked = self._asked.get(call.call_id)
        return asked.decision if asked is not None and asked.call.digest == call.digest else None

    async def begin(self, call_id: str, name: str) -> None:
        """Note that a call with effects, or an approved one, begins. Raises BegunBefore if it had before."""
        asked = self._asked.get(call_id)
        if asked is None:
            first = await asyncio.to_thread(self._store.begin, self._run_id, call_id)
        else:
            first = await asyncio.to_thread(self._store.claim, self._run_id, call_id, asked.call.digest)
        if not first:
            raise BegunBefore(_UNKNOWN.format(name))

    async def record(self, call_id: str, result: ToolResult) -> None:
        """Keep the result of a call, even if the run is cancelled meanwhile: what has run must not run again."""
        kept = asyncio.to_thread(self._store.record, self._run_id, call_id, msgspec.json.encode(result))
        await asyncio.shield(kept)

    async def checkpoint(self, state: bytes) -> None:
        """Keep how far the run has come, so that after a crash it goes on from here."""
        self._asked = {}
        await asyncio.to_thread(self._store.pause, self._run_id, self._agent, state, [])
