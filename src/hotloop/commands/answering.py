"""Taking a run to its answer, past the questions on its way: what `run` and `resume` have in common."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from hotloop.agent import Agent, Result
from hotloop.commands.asking import ask, say_waiting, undecided
from hotloop.commands.console import messages, show_trace
from hotloop.commands.launch import TO_REPORT, run_async
from hotloop.commands.screen import Screen, follow
from hotloop.errors import ApprovalRequired, HotloopError, ModelError
from hotloop.events import Event, RunPaused
from hotloop.tools.approvals.store import PendingCall
from hotloop.trace.trace import Trace


class Pause(NamedTuple):
    """A run that waits for decisions about these calls, with its trace if nobody watched it."""

    run_id: str
    calls: Sequence[PendingCall]
    trace: Trace | None = None


class Start(NamedTuple):
    """How a run begins, or goes on: with nobody watching, or event by event."""

    alone: Callable[[], Awaitable[Result]]
    watched: Callable[[], AsyncGenerator[Event]]


class Answering(NamedTuple):
    """An agent, the file that declares it, who decides about its calls (and why), and how its runs are shown.

    That is: not at all before they have ended (`as_json`), or text as it comes (`streams`) and what goes on (`status`).
    An `embedded` model is loaded first, for that is no part of a run.
    """

    agent: Agent
    config: Path
    embedded: bool
    as_json: bool
    streams: bool
    status: bool
    by: str
    reason: str = ""

    @property
    def asks(self) -> bool:
        """Whether there is a person to ask."""
        return self.status and sys.stdin.isatty() and sys.stderr.isatty()

    def begin(self, start: Start) -> Result | Pause:
        """Take a run to its answer, or to where it must be left waiting. Raises HotloopError."""
        return self.decide(run_async(self._take(start)))

    def go_on(self, run_id: str) -> Result | Pause:
        """`begin` for a run that was paused; when it is cut off, it says how to go on again."""
        start = Start(partial(self.agent.resume, run_id), partial(self.agent.resume_stream, run_id))
        try:
            ended = run_async(self._take(start), TO_REPORT)
        except (ModelError, KeyboardInterrupt):
            say_waiting(run_id, [], self.config)
            raise
        return self.decide(ended)

    def decide(self, ended: Result | Pause) -> Result | Pause:
        """Of a run that waits, ask about its calls if there is a person to ask, and go on once all are decided."""
        if isinstance(ended, Result) or not self.asks:
            return ended
        store = self.agent.approvals
        try:
            left = ask(store, ended.run_id, self.by, self.reason)
        except KeyboardInterrupt:
            messages().print()
            say_waiting(ended.run_id, undecided(store, ended.run_id), self.config)
            raise
        return Pause(ended.run_id, left) if left else self.go_on(ended.run_id)

    async def _take(self, start: Start) -> Result | Pause:
        async with self.agent:
            try:
                with Screen(answer=self.streams, status=self.status) as screen:
                    if self.embedded:
                        await self.agent.warm()
                    ended = await (_alone(start) if self.as_json else _watched(start, screen))
            except HotloopError as error:
                if self.status and error.trace and error.trace.turns:
                    show_trace(messages(), error.trace)
                raise
        if self.status and isinstance(ended, Result):
            show_trace(messages(), ended.trace)
        return ended


async def _alone(start: Start) -> Result | Pause:
    try:
        return await start.alone()
    except ApprovalRequired as pause:
        return Pause(pause.run_id, pause.calls, pause.trace)


async def _watched(start: Start, screen: Screen) -> Result | Pause:
    ended = await follow(start.watched(), screen)
    return Pause(ended.run_id, ended.calls) if isinstance(ended, RunPaused) else ended
