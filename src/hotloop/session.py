"""A conversation that lasts from one prompt to the next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Unpack

from hotloop.context.conversation import Conversation
from hotloop.errors import ConfigError
from hotloop.events import Event, RunFinished
from hotloop.loop import Program
from hotloop.outlet import streamed
from hotloop.runner import run_here
from hotloop.runoptions import RunOptions
from hotloop.tools.running.caller import Caller

if TYPE_CHECKING:
    from hotloop.agent import Agent, Result


class Session:
    """A conversation that lasts. Each prompt is committed whole, or, when it fails or is cancelled, not at all.

    One run at a time writes: others wait for it. The conversation lives in this process; a run of it that was paused
    can be resumed in another one, where the session then has what came before too.
    """

    def __init__(self, agent: Agent, session_id: str, start: Conversation) -> None:
        self.id = session_id
        self._agent = agent
        self._program: Program | None = None
        self._conversation = self._branch = start
        self._turn = asyncio.Lock()

    async def run(self, prompt: str, **options: Unpack[RunOptions]) -> Result:
        """Answer one prompt in this conversation; see `Agent.run`."""
        async with self._turn:
            result = await self._agent._ask(prompt, options, self)
            self._conversation = self._branch
            return result

    async def stream(self, prompt: str, **options: Unpack[RunOptions]) -> AsyncGenerator[Event]:
        """Answer one prompt in this conversation, event by event; see `Agent.stream`."""
        async with self._turn, aclosing(streamed(lambda emit: self._agent._ask(prompt, options, self, emit))) as events:
            async for event in events:
                if isinstance(event, RunFinished):
                    self._conversation = self._branch
                yield event

    def run_sync(self, prompt: str, **options: Unpack[RunOptions]) -> Result:
        """`run` outside asyncio."""
        return run_here(self.run(prompt, **options))

    async def resume_stream(self, run_id: str) -> AsyncGenerator[Event]:
        """`resume`, event by event; see `Agent.stream`."""
        async with self._turn, aclosing(streamed(lambda emit: self._agent._resume(run_id, emit, self))) as events:
            async for event in events:
                if isinstance(event, RunFinished):
                    self._conversation = self._branch
                yield event

    async def resume(self, run_id: str) -> Result:
        """Go on with a run of this conversation that was paused; see `Agent.resume`.

        Raises ConfigError if the conversation has gone on without it.
        """
        async with self._turn:
            result = await self._agent._resume(run_id, session=self)
            self._conversation = self._branch
            return result

    def begin(self, choose: Callable[[], Program]) -> tuple[Program, Conversation]:
        """For the agent: the program of this conversation, chosen once, and a branch of it to write to.

        Its tools stay, so that the prefix which the service caches stays.
        """
        self._program = self._program or choose()
        self._branch = self._conversation.branch()
        return self._program, self._branch

    def go_on(self, program: Program, conversation: Conversation, caller: Caller) -> None:
        """For the agent: a paused run's program and branch; raises ConfigError unless it continues this session."""
        if caller.session != self.id:
            whose = f"session {caller.session}" if caller.session else "no session"
            raise ConfigError(f"Run {caller.run} is one of {whose}, not of {self.id}.")
        if not conversation.messages.startswith(self._conversation.messages):
            raise ConfigError(f"Session {self.id} has gone on without run {caller.run}, so it cannot take its answer.")
        self._program, self._branch = program, conversation
