"""What an agent was compiled to, for each set of tools that it offers the model."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hotloop.budget import Budget
from hotloop.errors import ConfigError
from hotloop.loop import Program
from hotloop.models.ahead.speculation import Speculator
from hotloop.models.ask import Thinker
from hotloop.models.backend import Backends
from hotloop.output.output import Output
from hotloop.tools.defining.source import Offer
from hotloop.tools.defining.tool import Tool
from hotloop.tools.running.executor import Executor

if TYPE_CHECKING:
    from hotloop.tools.prefetch.prefetcher import Prefetcher

_log = logging.getLogger("hotloop.models")

_MOST = 256  # sets of tools that are kept compiled


class Programs:
    """The programs of an agent, once all its tools are known."""

    def __init__(self, offer: Offer, compiled: Callable[[Sequence[Tool]], ProgramCache]) -> None:
        self._offer = offer
        self._compiled = compiled
        known = offer.known()
        self.known = None if known is None else compiled(known)

    def begin(self) -> ProgramCache | None:
        """Them for a run, beside which sources connect; None if tools are to be `listed` first."""
        if self.known is not None and self._offer.sources:
            self._offer.connect()
        return self.known

    async def listed(self) -> ProgramCache:
        """Them, with tools asked for where they are."""
        if self.known is None:
            programs = self._compiled(await self._offer.listed())
            self.known = self.known or programs  # another run may have been first meanwhile
        return self.known


class ProgramCache:
    """The programs of an agent with these tools; `shortlist` is how many of them a conversation gets, None for all."""

    def __init__(
        self,
        tools: Sequence[Tool],
        executor: Executor,
        backends: Backends,
        *,
        budget: Budget | None,
        max_turns: int,
        shortlist: int | None,
        output: Output | None = None,
        speculate: bool = False,
        prefetcher: Prefetcher | None = None,
    ) -> None:
        self.tools = list(tools)
        self.executor = executor
        self._backends = backends
        self._budget = budget
        self._max_turns = max_turns
        self._shortlist = shortlist
        self._output = output
        self._form = output.form if output is not None else None
        self._speculate = speculate
        self._prefetcher = prefetcher
        self._kept: dict[tuple[str, ...], Program] = {}
        self._all = self._compile(self.tools)
        if speculate and self._all.speculator is None:
            _log.warning(
                "speculate=True has no effect: %s services are not known to cache, or take no calls without results.",
                " and ".join(dict.fromkeys(each.dialect.name for each in backends.all)),
            )

    def for_prompt(self, prompt: str, before: Sequence[str] | None = None) -> Program:
        """The program for a conversation that begins with this prompt, or goes on with the tools that it had `before`.

        Where one of these is gone, they are chosen anew.
        """
        if self._shortlist is None or self._shortlist >= len(self.tools):
            return self._all
        if before and set(before) <= {each.name for each in self.tools}:
            return self.with_tools(before)
        texts = [(each.name, each.description) for each in self.tools]
        from hotloop.context.shortlist import shortlist as best_matches

        chosen = sorted(best_matches(prompt, texts, self._shortlist))
        return self._with([self.tools[index] for index in chosen])

    def with_tools(self, names: Sequence[str]) -> Program:
        """The program with just these tools, as a paused run had them. Raises ConfigError if one is gone."""
        known = {each.name: each for each in self.tools}
        if gone := [name for name in names if name not in known]:
            raise ConfigError(f"The paused run had tools that this agent has not: {', '.join(gone)}.")
        return self._with([known[name] for name in names])

    def summarizer(self) -> Thinker:
        """Who summarizes a conversation: the agent's own model, offered the same tools, so that a prefix is shared."""
        names = frozenset([*self._all.tools, *self.executor.built_in])
        return self._backends.thinker(self.executor.definitions(self.tools), names)

    async def prefill(self, instructions: bytes) -> None:
        """Have the models read what conversations begin with; not where each has its own shortlist of tools."""
        if self._shortlist is None:
            definitions = self.executor.definitions(self.tools)
            await self._backends.prefill(definitions, instructions, self._form)

    def _with(self, offered: Sequence[Tool]) -> Program:
        names = tuple(each.name for each in offered)
        if names not in self._kept:
            if len(self._kept) >= _MOST:
                self._kept.clear()
            self._kept[names] = self._compile(offered)
        return self._kept[names]

    def _compile(self, tools: Sequence[Tool]) -> Program:
        names = tuple(each.name for each in tools)
        definitions = self.executor.definitions(tools)
        thinker = self._backends.thinker(definitions, frozenset([*names, *self.executor.built_in]), self._form)
        speculator = None
        if self._speculate:
            speculator = Speculator(self._backends.clients(definitions, self._form), names, thinker.dialect)
            speculator = speculator if speculator.able else None
        facts = {each.name: self.executor.facts(each) for each in tools}
        budget, output = self._budget, self._output
        return Program(thinker, self.executor, budget, self._max_turns, facts, output, speculator, self._prefetcher)
