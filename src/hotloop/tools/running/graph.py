"""In which order the calls of one reply must go: results they need, tools they come after, resources they share.

All that is not ordered here runs side by side.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from hotloop.errors import ConfigError
from hotloop.tools.defining.template import Template
from hotloop.tools.defining.tool import Tool


class Resource(NamedTuple):
    """The name of a resource; with `exact` False only how it begins, because the rest is not known yet."""

    text: str
    exact: bool = True

    def meets(self, other: Resource) -> bool:
        """Whether both may be the same."""
        if self.exact and other.exact:
            return self.text == other.text
        return _begins(self, other) or _begins(other, self)


class Node(NamedTuple):
    """One call as far as its order matters. `needs` are the places of the calls whose results it takes."""

    tool: str
    after: tuple[str, ...] = ()
    sequential: bool = False
    reads: tuple[Resource, ...] = ()
    writes: tuple[Resource, ...] = ()
    needs: tuple[int, ...] = ()


class Edge(NamedTuple):
    """A call to wait for, by its place, and why: the name of a resource, or ""; `after` says that it `must` succeed."""

    place: int
    why: str = ""
    must: bool = False


def resources(templates: Iterable[Template], arguments: Mapping[str, Any] | None) -> tuple[Resource, ...]:
    """The resources that these arguments name; with None, which are still to come, how their names begin."""
    if arguments is None:
        return tuple(Resource(each.stem(), exact=not each.fields) for each in templates)
    return tuple(Resource(each.fill(arguments)) for each in templates)


def order(nodes: Sequence[Node], begun: Collection[int] = ()) -> list[list[Edge] | None]:
    """For each call those that it waits for; None for one that can never start, because it waits for itself.

    Results and `after` come first; among what they leave open, the order in which the model wrote the calls holds for
    resources and barriers. Calls that have `begun` (by place) wait for nobody, so everybody waits for them. Every edge
    points back in one sequence, and no two calls wait for each other.
    """
    first = [_first(node, place, nodes) for place, node in enumerate(nodes)]
    edges: list[list[Edge] | None] = [None] * len(nodes)
    before: list[int] = []
    written = [each | _conflicting_before(nodes, place) for place, each in enumerate(first)]
    sequence = _sequence(written, begun)
    if len(sequence) < len(nodes):  # what must come first contradicts the order of writing
        sequence = _sequence(first, begun)
    for place in sequence:
        shared = [(other, why) for other in before if (why := _apart(nodes[other], nodes[place])) is not None]
        known = {other for other, _ in shared}
        after = nodes[place].after
        edges[place] = [
            Edge(other, why, must=nodes[other].tool in after)
            for other, why in [*((other, "") for other in sorted(first[place] - known)), *shared]
        ]
        before.append(place)
    return edges


def conflicts(one: Node, other: Node) -> bool:
    """Whether these two may not run at the same time."""
    return _apart(one, other) is not None


def check_acyclic(tools: Sequence[Tool]) -> None:
    """Raise ConfigError if a tool's `after` names no tool of these, or if they wait for each other in a circle."""
    after = {tool.name: tool.after for tool in tools}
    for name, others in after.items():
        for other in others:
            if other not in after:
                raise ConfigError(f"The tool {name} comes after {other}, but the agent has no tool {other}.")
    done: set[str] = set()
    for name in after:
        _walk(name, after, (), done)


def _walk(name: str, after: Mapping[str, Sequence[str]], path: tuple[str, ...], done: set[str]) -> None:
    if name in path:
        circle = " after ".join((*path[path.index(name) :], name))
        raise ConfigError(f"These tools wait for each other: {circle}. Take one `after` away.")
    if name not in done:
        for other in after[name]:
            _walk(other, after, (*path, name), done)
        done.add(name)


def _begins(short: Resource, long: Resource) -> bool:
    return not short.exact and long.text.startswith(short.text)


def _first(node: Node, place: int, nodes: Sequence[Node]) -> set[int]:
    """The places of the calls that must end before this one, wherever the model wrote them."""
    return {other for other, each in enumerate(nodes) if other != place and each.tool in node.after} | set(node.needs)


def _conflicting_before(nodes: Sequence[Node], place: int) -> set[int]:
    return {other for other in range(place) if conflicts(nodes[other], nodes[place])}


def _sequence(first: Sequence[set[int]], begun: Collection[int]) -> list[int]:
    """All places that can ever start: as they were written, but each after what must come before it."""
    sequence = dict.fromkeys(sorted(begun))
    stuck: set[int] = set()  # in a circle, behind one, or just being looked at

    def visit(place: int) -> bool:
        if place in sequence or place in stuck:
            return place in sequence
        stuck.add(place)
        if all(visit(other) for other in sorted(first[place])):
            stuck.discard(place)
            sequence[place] = None
        return place in sequence

    for place in range(len(first)):
        visit(place)
    return list(sequence)


def _apart(before: Node, after: Node) -> str | None:
    """Why the second must wait for the first: a resource, or "" for a barrier; None if it need not."""
    if before.sequential or after.sequential:
        return ""
    for mine, others in ((after.writes, (*before.reads, *before.writes)), (after.reads, before.writes)):
        for name in mine:
            for other in others:
                if name.meets(other):
                    return name.text if name.exact else other.text
    return None
