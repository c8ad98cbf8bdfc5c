"""What if more were done than is sure to be needed: a second request beside a slow one, a tool before it is called?"""

from __future__ import annotations

from random import Random

import msgspec
from msgspec.structs import replace

from hotloop.errors import ConfigError
from hotloop.insight.edits.edit import Change, instant_calls, instant_reading, with_asks, with_calls
from hotloop.insight.graph import Graph
from hotloop.insight.pieces import Ask, Call
from hotloop.insight.workload import Workload
from hotloop.trace.stats import percentile
from hotloop.units import NS_PER_MS, show_ms

LEAST = 20  # requests with a known first token tell what is usual


class Hedge(msgspec.Struct, frozen=True):
    """A second request is sent once the first has waited as long as `percent` % of them do; the faster one counts."""

    percent: float = 95.0

    @property
    def label(self) -> str:
        """See `Edit`."""
        return f"a second request after the p{self.percent:g} of the first token"

    @property
    def chance(self) -> bool:
        """See `Edit`."""
        return True

    def change(self, work: Workload) -> Change:
        """See `Edit`."""
        usual = {
            where: percentile(known.waits, self.percent)
            for where, known in work.services.items()
            if len(known.waits) >= LEAST
        }

        def change(graph: Graph, draw: Random) -> Graph:
            def hedged(ask: Ask) -> Ask:
                after = usual.get((ask.service, ask.model))
                if ask.by is not None or not ask.first_known or after is None or ask.prefill <= after:
                    return ask
                second = round(after + draw.choice(work.services[ask.service, ask.model].waits))
                return replace(ask, prefill=min(ask.prefill, second))

            return with_asks(graph, hedged)

        return change

    def without(self, work: Workload) -> Change:
        """See `Edit`."""
        return instant_reading

    def assumptions(self, work: Workload) -> list[str]:
        """See `Edit`."""
        told = ["a second request takes what any request takes, and slows none down"]
        for (_, model), known in work.services.items():
            if len(known.waits) < LEAST:
                seen = f"the first token of {len(known.waits)} requests of {model} is known"
                told.append(f"{seen}, too few to tell what is usual: none is sent twice")
            else:
                after = show_ms(percentile(known.waits, self.percent) / NS_PER_MS)
                told.append(f"of {model} the second one is sent after {after}: {100 - self.percent:g} % more requests")
        return told


class Prefetch(msgspec.Struct, frozen=True):
    """So large a share of the calls of read-only tools is guessed: begun together with the request of their turn.

    `tools` are those that it is about, None for all that only read. Raises ConfigError for a rate that is none.
    """

    rate: float
    tools: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise ConfigError(f"The hit rate of prefetching is {self.rate:g}; give a share from 0 to 1.")

    @property
    def label(self) -> str:
        """See `Edit`."""
        of = f" of {', '.join(sorted(self.tools))}" if self.tools is not None else ""
        return f"{self.rate:.0%} of the calls{of} guessed while the model thinks"

    @property
    def chance(self) -> bool:
        """See `Edit`."""
        return 0 < self.rate < 1

    def change(self, work: Workload) -> Change:
        """See `Edit`."""

        def change(graph: Graph, draw: Random) -> Graph:
            def guessed(call: Call) -> Call:
                return replace(call, ahead=True) if self._is_meant(call) and draw.random() < self.rate else call

            return with_calls(graph, guessed)

        return change

    def without(self, work: Workload) -> Change:
        """See `Edit`."""
        names = {
            call.name for graph in work.graphs for turn in graph.turns for call in turn.calls if self._is_meant(call)
        }
        return instant_calls(names)

    def assumptions(self, work: Workload) -> list[str]:
        """See `Edit`."""
        return ["a guess is made when the model is asked, and wrong ones slow nothing down"]

    def _is_meant(self, call: Call) -> bool:
        return call.takes_place and (call.read_only if self.tools is None else call.name in self.tools)
