"""What an agent has for its prefetch: what was learned of its runs, its settings, and whether it pays."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from hotloop.tools.prefetch.kept import Expected, Learned
from hotloop.tools.prefetch.past import Past
from hotloop.tools.prefetch.prefetching import Prefetching
from hotloop.tools.prefetch.settings import Prefetch

if TYPE_CHECKING:
    from hotloop.tools.running.executor import Executor
    from hotloop.tools.running.job import RunContext

_log = logging.getLogger("hotloop.tools")

_SLOWER = "Nothing more is begun ahead for %s, for a while: turns in which it was were slower than those without."


class Prefetcher:
    """Begins calls ahead for the runs of the agent of this name, by what was `learned`."""

    def __init__(self, settings: Prefetch, agent: str, executor: Executor, learned: Learned) -> None:
        self.settings = settings
        self.executor = executor
        self.payoff = learned.payoff_of(agent)
        self._agent = agent
        self._learned = learned
        self._told = False

    def begin(self, run: RunContext) -> Prefetching | None:
        """A run begins; None if there is nothing to expect of it, or it goes on from a pause."""
        return Prefetching(self, run) if run.journal is None and self._learned.knows(self._agent) else None

    def expected(self, past: Past, sure: float) -> list[Expected]:
        """The calls that are likely enough to come after a past that is so `sure`, and worth it, the surest first."""
        found = self._learned.expected(self._agent, past, self.settings.confidence / sure, time.time())
        return [each for each in found if self.payoff.worth_trying(each.known.name, each.known.counts)]

    def choose(self) -> bool:
        """Whether to begin what is expected; that it does not pay is said once."""
        if self.payoff.off and not self._told:
            self._told = True
            _log.warning(_SLOWER, self._agent or "an agent without a name")
        return self.payoff.choose()
