"""Taking a run to its answer, past the questions on its way: what `run` and `resume` have in common."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

from hotloop.agent import Agent
from hotloop.commands.asking import ask, say_waiting, undecided
from hotloop.commands.console import messages, show_trace
from hotloop.commands.launch import TO_REPORT, run_async
from hotloop.commands.screen import Screen, follow
from hotloop.commands.telling import Manner
from hotloop.commands.weights import have_weights
from hotloop.config.spec import load_spec
from hotloop.errors import HotloopError, ModelError
from hotloop.events import Event, RunPaused
from hotloop.runs import Result


class Answering:
    """Runs of the `agent` that the file `config` declares; `by` decides about its calls, for a `reason`.

    The embedded model is fetched and loaded before a run begins, for that is no part of it. An answer that is a value
    is not shown as it comes, for only the whole of it is one. Raises ConfigError for a file that declares no agent.
    """

    def __init__(self, config: Path, manner: Manner, by: str, reason: str = "") -> None:
        spec = load_spec(config)
        self.agent = Agent.from_spec(spec)
        self._local = [each.model for each in spec.models if each.endpoint == "local"]
        self._config = config
        self.manner = manner._replace(streams=manner.streams and spec.output is None)
        self.by = by
        self._reason = reason

    def begin(self, events: AsyncGenerator[Event]) -> Result | RunPaused:
        """Take a run to its answer, or to where it must be left waiting. Raises HotloopError."""
        self._have_weights()
        return self.decide(run_async(self._follow(events)))

    def go_on(self, run_id: str) -> Result | RunPaused:
        """`begin` for a run that was paused; when it is cut off, it says how to go on again."""
        try:
            self._have_weights()
            ended = run_async(self._follow(self.agent.resume_stream(run_id)), TO_REPORT)
        except (ModelError, KeyboardInterrupt):
            say_waiting(run_id, [], self._config)
            raise
        return self.decide(ended)

    def decide(self, ended: Result | RunPaused) -> Result | RunPaused:
        """Of a run that waits, ask about its calls if there is a person to ask, and go on once all are decided."""
        if isinstance(ended, Result) or not self.manner.asks:
            return ended
        store = self.agent.approvals
        try:
            left = ask(store, ended.run_id, self.by, self._reason)
        except KeyboardInterrupt:
            messages().print()
            say_waiting(ended.run_id, undecided(store, ended.run_id), self._config)
            raise
        return RunPaused(ended.run_id, left, ended.trace) if left else self.go_on(ended.run_id)

    def _have_weights(self) -> None:
        for model in self._local:
            have_weights("local", model)

    async def _follow(self, events: AsyncGenerator[Event]) -> Result | RunPaused:
        manner = self.manner
        async with self.agent:
            try:
                with Screen(answer=manner.streams, status=manner.status) as screen:
                    if self._local:
                        await self.agent.warm()
                    ended = await follow(events, screen)
            except HotloopError as error:
                if manner.status and error.trace and error.trace.turns:
                    show_trace(messages(), error.trace)
                raise
        if manner.status and isinstance(ended, Result):
            show_trace(messages(), ended.trace)
        return ended
