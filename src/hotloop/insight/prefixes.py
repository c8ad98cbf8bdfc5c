"""How much of each prompt the service had seen before: in the same run, in the session's last one, in any run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import gcd
from statistics import median

from msgspec.structs import replace

from hotloop.insight.graph import Graph
from hotloop.insight.pieces import Ask, Turn

_BYTES_PER_TOKEN = 4

Agent = tuple[str, str, str, str]
"""A service and a model, and the agent that asks them, with its version."""


def with_known(graphs: Sequence[Graph], fronts: Mapping[Agent, int]) -> list[Graph]:
    """The runs, in order of time, each request with what its service had seen of its prompt.

    A run begins as the last one of its session has ended, else with what all runs of its agent begin with (`fronts`):
    its instructions and tools. Where a service tells what it had cached, that counts, to its block.
    """
    blocks = _blocks(graphs)
    met: set[Agent] = set()
    ended: dict[str, Ask] = {}
    told = []
    for graph in graphs:
        asks = graph.asks
        if not asks:
            told.append(graph)
            continue
        agent = agent_of(graph, asks[0])
        earlier = ended.get(graph.session) if graph.session else None
        first = earlier.prompt if earlier is not None else fronts[agent] if agent in met else 0
        met.add(agent)
        told.append(_told(graph, first, blocks))
        if graph.session:
            ended[graph.session] = asks[-1]
    return told


def _blocks(graphs: Sequence[Graph]) -> dict[tuple[str, str], int]:
    """By service and model how many tokens its cache keeps together, 0 where none were ever cached."""
    blocks: dict[tuple[str, str], int] = {}
    for graph in graphs:
        for ask in graph.asks:
            if ask.cached:
                where = ask.service, ask.model
                blocks[where] = gcd(blocks.get(where, 0), ask.cached)
    return blocks


def fronts_of(graphs: Sequence[Graph]) -> dict[Agent, int]:
    """About how many tokens all prompts of an agent begin with; 0 where that cannot be told."""
    firsts: dict[Agent, list[tuple[Graph, Ask]]] = {}
    for graph in graphs:
        if asks := graph.asks:
            firsts.setdefault(agent_of(graph, asks[0]), []).append((graph, asks[0]))
    return {agent: _front(some) for agent, some in firsts.items()}


def agent_of(graph: Graph, ask: Ask) -> Agent:
    """Who asks whom."""
    return ask.service, ask.model, graph.name, graph.version


def _front(firsts: Iterable[tuple[Graph, Ask]]) -> int:
    firsts = list(firsts)
    cached = [ask.cached for _, ask in firsts if ask.cached]
    fronts = [ask.prompt - graph.asked // _BYTES_PER_TOKEN for graph, ask in firsts if graph.asked]
    return max(min(fronts, default=0), int(median(cached)) if cached else 0)


def _told(graph: Graph, first: int, blocks: Mapping[tuple[str, str], int]) -> Graph:
    """The run, of whose first prompt so many tokens had been seen."""
    turns, before, who = [], first, None
    for turn in graph.turns:
        pieces = []
        for piece in turn.before:
            if type(piece) is Ask:
                where = piece.service, piece.model
                known = piece.known or (before if who in (None, where) else 0)
                before, who = piece.prompt, where
                if piece.cached is not None and (block := blocks.get(where)):
                    known = min(max(known, piece.cached), piece.cached + block - 1)
                piece = replace(piece, known=min(known, piece.prompt))
            pieces.append(piece)
        turns.append(Turn(turn.number, tuple(pieces), turn.calls, turn.beside, turn.after))
    return replace(graph, turns=tuple(turns))
