"""What if prompts were shorter, or less of them had to be read?"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from hotloop.errors import ConfigError
from hotloop.insight.edits.edit import Change, instant_reading, reread, with_asks
from hotloop.insight.graph import Graph
from hotloop.insight.pieces import Ask, Turn
from hotloop.insight.workload import Workload
from hotloop.units import NS_PER_MS

_BYTES_PER_TOKEN = 4
_CROWDED = 0.2
_READING_ON = 120  # tokens that describe the tool with which a model reads on


class PrefixReuse(msgspec.Struct, frozen=True):
    """The service keeps what it has read of earlier prompts, in whole blocks of so many tokens."""

    block: int = 16

    @property
    def label(self) -> str:
        """See `Edit`."""
        return "prefix cache on"

    @property
    def chance(self) -> bool:
        """See `Edit`."""
        return False

    def change(self, work: Workload) -> Change:
        """See `Edit`."""

        def cached(ask: Ask) -> Ask:
            known = work.service_of(ask)
            had = ask.cached if ask.cached is not None else ask.known if known and known.caches else 0
            more = max(ask.known // self.block * self.block - had, 0)
            return replace(
                reread(ask, ask.prompt - more, ask.known - more, known), prompt=ask.prompt, cached=had + more
            )

        return lambda graph, _: with_asks(graph, cached)

    def without(self, work: Workload) -> Change:
        """See `Edit`."""
        return instant_reading

    def assumptions(self, work: Workload) -> list[str]:
        """See `Edit`."""
        return [*cost_of_reading(work), "what an earlier prompt began with is still there when it comes again"]


class ShapedResults(msgspec.Struct, frozen=True):
    """The model reads at most so many tokens of each result. Raises ConfigError for less than one."""

    tokens: int

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ConfigError(f"max_result is {self.tokens}; give 1 token or more.")

    @property
    def label(self) -> str:
        """See `Edit`."""
        return f"results of at most {self.tokens:,} tokens"

    @property
    def chance(self) -> bool:
        """See `Edit`."""
        return False

    def change(self, work: Workload) -> Change:
        """See `Edit`."""
        carried = self._carried(work)
        return lambda graph, _: self._shaped(graph, work, carried.get(graph.trace_id, 0))

    def without(self, work: Workload) -> Change:
        """See `Edit`."""
        return instant_reading

    def assumptions(self, work: Workload) -> list[str]:
        """See `Edit`."""
        calls = [call for place in work.sample for turn in work.graphs[place].turns for call in turn.calls]
        if not any(call.size for call in calls):
            return ["nothing is known of how long results were, so that none is known to be too long"]
        long = sum(call.size > self.tokens * _BYTES_PER_TOKEN for call in calls)
        told = f"{long / len(calls):.0%} of the results are longer; the model needs no more of them"
        defined = f"the tool with which it could read on is {_READING_ON} tokens more in each prompt"
        return [told, defined, *cost_of_reading(work)]

    def _shaped(self, graph: Graph, work: Workload, gone: int) -> Graph:
        """The run, of whose past so many tokens of results are not there."""
        before = gone  # tokens that are not there in the prompt before this one
        turns = []
        for turn in graph.turns:
            pieces = []
            for piece in turn.before:
                if type(piece) is Ask:
                    seen = piece.known - before + _READING_ON if piece.known else 0
                    piece = reread(piece, piece.prompt - gone + _READING_ON, seen, work.service_of(piece))
                    before = gone
                pieces.append(piece)
            gone += self._cut(turn)
            turns.append(Turn(turn.number, tuple(pieces), turn.calls, turn.beside, turn.after))
        return replace(graph, turns=tuple(turns))

    def _cut(self, turn: Turn) -> int:
        """How many tokens of a turn's results the model would not read."""
        over = (call.size // _BYTES_PER_TOKEN - self.tokens for call in turn.calls)
        return sum(tokens for tokens in over if tokens > 0)

    def _carried(self, work: Workload) -> dict[str, int]:
        """By run of a session, how many tokens of results it would not have from its past."""
        past: dict[str, int] = {}
        carried = {}
        for graph in work.graphs:
            if graph.session:
                carried[graph.trace_id] = before = past.get(graph.session, 0)
                past[graph.session] = before + sum(map(self._cut, graph.turns))
        return carried


def cost_of_reading(work: Workload) -> list[str]:
    """What is known of the cost of a prompt token, and what is not, in sentences."""
    told = []
    for (service, model), known in work.services.items():
        where = f"{model} at {service}" if service else model
        if known.token_in is None:
            told.append(
                f"what a prompt token costs {where} cannot be told from these runs: it is taken to cost nothing"
            )
        else:
            cost = f"{known.token_in / NS_PER_MS * 1000:,.1f} ms"
            told.append(f"1,000 prompt tokens cost {where} {cost}, learned from {known.asks:,} requests")
        if known.crowded > _CROWDED:
            told.append(
                f"{known.crowded:.0%} of the requests to {where} met others there, and wait for them as before; "
                "name that service's own profile as the service, and the waiting is worked out anew"
            )
    return told
