"""What if the past of a session were summarized before it becomes long?"""

from __future__ import annotations

from collections import deque

import msgspec

from hotloop.errors import ConfigError
from hotloop.insight.edits.edit import Change, instant_reading, reread, with_asks
from hotloop.insight.edits.prompts import cost_of_reading
from hotloop.insight.graph import Graph
from hotloop.insight.pieces import Ask
from hotloop.insight.workload import Workload
from hotloop.units import NS_PER_S

_COMPACT_AT, _KEPT, _SUMMARY = 0.7, 4, 300  # as `Context` has them; a summary has at most 300 words


class ContextCap(msgspec.Struct, frozen=True):
    """No prompt has more than so many tokens: what was said early in a session is summarized.

    Raises ConfigError for less than one.
    """

    tokens: int

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ConfigError(f"A context of {self.tokens} tokens holds nothing; give more.")

    @property
    def label(self) -> str:
        """See `Edit`."""
        return f"prompts of at most {self.tokens:,} tokens"

    @property
    def chance(self) -> bool:
        """See `Edit`."""
        return False

    def change(self, work: Workload) -> Change:
        """See `Edit`."""
        removed = _removed(work, self.tokens)

        def change(graph: Graph, _: object) -> Graph:
            gone, fresh = removed.get(graph.trace_id, (0, False))
            first = True

            def capped(ask: Ask) -> Ask:
                nonlocal first
                prompt = min(ask.prompt - gone, self.tokens)
                seen = ask.known - gone
                if first and fresh:
                    seen = min(seen, work.front(graph, ask))
                first = False
                changed = prompt != ask.prompt or seen != ask.known
                return reread(ask, prompt, seen, work.service_of(ask)) if changed else ask

            return with_asks(graph, capped)

        return change

    def without(self, work: Workload) -> Change:
        """See `Edit`."""
        return instant_reading

    def assumptions(self, work: Workload) -> list[str]:
        """See `Edit`."""
        asks = [ask for place in work.sample for ask in work.graphs[place].asks]
        over = sum(ask.prompt > self.tokens for ask in asks) / max(len(asks), 1)
        told = [f"{over:.0%} of the prompts are longer", *cost_of_reading(work)]
        if any(graph.session for graph in work.graphs):
            told.append(
                f"a session that has come to {_COMPACT_AT:.0%} of that is summarized beside the runs, in {_SUMMARY} "
                f"tokens, but for its last {_KEPT} turns"
            )
        if not all(graph.session for graph in work.graphs):
            told.append("a run without a session is shortened as well; that it waits for a summary is not counted")
        return told


def _removed(work: Workload, limit: int) -> dict[str, tuple[int, bool]]:
    """By run of a session: how many tokens of its past are summarized away, and whether since the run before it."""
    gone: dict[str, tuple[int, bool]] = {}
    sessions: dict[str, _Session] = {}
    for graph in work.graphs:
        if not graph.session or not (asks := graph.asks):
            continue
        session = sessions.setdefault(graph.session, _Session())
        gone[graph.trace_id] = session.begin(asks[0].prompt, graph.started)
        known = work.service_of(asks[-1])
        writing = known.token_out or 0.0 if known is not None else 0.0
        ended = graph.started + graph.took / NS_PER_S
        tokens = asks[-1].prompt + asks[-1].out
        session.end(tokens, work.front(graph, asks[0]), limit, ended + _SUMMARY * writing / NS_PER_S)
    return gone


class _Session:
    """What a session's prompts would be: `gone` tokens of it are summarized away. Times are Unix seconds."""

    def __init__(self) -> None:
        self._gone = self._summarized = 0
        self._ready: float | None = None
        self._prompts: deque[int] = deque(maxlen=_KEPT)  # as they were

    def begin(self, prompt: int, at: float) -> tuple[int, bool]:
        """A run begins with a prompt of so many tokens, as it was; if a summary is ready, it takes its place."""
        self._prompts.append(prompt)
        fresh = self._ready is not None and self._ready <= at
        if fresh:
            self._gone, self._ready = self._gone + self._summarized, None
        return self._gone, fresh

    def end(self, tokens: int, front: int, limit: int, ready: float) -> None:
        """It has ended with so many tokens, as it was; a summary that is begun now would be `ready` then."""
        if self._ready is not None or tokens - self._gone < _COMPACT_AT * limit or len(self._prompts) < _KEPT:
            return
        early = self._prompts[0] - self._gone - front  # what is before the newest turns
        if early > _SUMMARY:
            self._summarized, self._ready = early - _SUMMARY, ready
