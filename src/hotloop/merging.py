"""Prompts that come while another one is answered, answered together in one turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from hotloop.events import Event
from hotloop.limit import stop
from hotloop.loop import require_prompt
from hotloop.models.transport import Emit, Throttle
from hotloop.runoptions import RunOptions

Answer = Callable[[str, RunOptions, Emit], Awaitable[Any]]


class Merged:
    """Answers prompts by `answer`, one turn after the other; those that wait together are one prompt, in their order.

    Only prompts with the same options are merged, but for their ids: those of the first are the turn's. Whoever gave
    one of them gets the result and hears all events.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._turn = asyncio.Lock()
        self._waiting: _Group | None = None

    async def ask(self, prompt: str, options: RunOptions, emit: Emit) -> Any:
        """The result for this prompt and those it was merged with. Raises what the run raises."""
        require_prompt(prompt)
        group = self._waiting
        if group is None or _shared(group.options) != _shared(options):
            group = self._waiting = _Group(options)
            group.task = asyncio.create_task(self._answered(group))
        member = _Member(group, prompt, emit)
        group.members.append(member)
        try:
            return await asyncio.shield(group.task)
        except asyncio.CancelledError:
            group.members.remove(member)
            if not group.members:
                self._closed(group)
                await stop([group.task])
            raise

    async def _answered(self, group: _Group) -> Any:
        async with self._turn:
            self._closed(group)
            prompts = [member.prompt for member in group.members]
            return await self._answer("\n\n".join(prompts), group.options, group.tell)

    def _closed(self, group: _Group) -> None:
        """Nobody joins it any more."""
        if self._waiting is group:
            self._waiting = None


_IDS = ("trace_id", "traceparent", "tracestate")


def _shared(options: RunOptions) -> dict[str, Any]:
    """The options that have to be the same: the ids of a run are those of the first."""
    return {name: value for name, value in options.items() if name not in _IDS}


class _Group:
    """Prompts that are one turn, each with who hears of it."""

    task: asyncio.Task[Any]

    def __init__(self, options: RunOptions) -> None:
        self.options = options
        self.members: list[_Member] = []
        self.throttle: Throttle | None = None  # of the reply that is arriving

    def tell(self, events: Sequence[Event], throttle: Throttle | None = None) -> None:
        """Tell all of them; the slowest reader sets the pace."""
        if throttle is not None and throttle is not self.throttle:
            self.throttle = throttle
            if self.held:
                throttle.pause()
        for member in self.members:
            member.emit(events, throttle and member)

    @property
    def held(self) -> bool:
        """Whether the reply is to wait for somebody."""
        return any(member.paused for member in self.members)


class _Member:
    """Who gave one of the prompts; for its reader, the throttle of the reply."""

    def __init__(self, group: _Group, prompt: str, emit: Emit) -> None:
        self.prompt = prompt
        self.emit = emit
        self.paused = False
        self._group = group

    def pause(self) -> None:
        """Hold the reply up, for all."""
        self.paused = True
        if self._group.throttle is not None:
            self._group.throttle.pause()

    def resume(self) -> None:
        """Let it go on, once nobody else is behind."""
        self.paused = False
        if self._group.throttle is not None and not self._group.held:
            self._group.throttle.resume()
