"""In which order the calls of one reply must go, and what cannot be ordered at all."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.errors import ConfigError
from hotloop.tools.defining.define import tool
from hotloop.tools.defining.template import read_template
from hotloop.tools.running.graph import Edge, Node, Resource, check_acyclic, conflicts, order, resources


def names(*texts: str) -> tuple[Resource, ...]:
    """Resources; a text that ends in … is only how a name begins."""
    return tuple(Resource(text.rstrip("…"), exact=not text.endswith("…")) for text in texts)


def reads(*texts: str, **fields) -> Node:
    return Node("read", reads=names(*texts), **fields)


def writes(*texts: str, **fields) -> Node:
    return Node("write", writes=names(*texts), **fields)


ALONE = Node("alone", sequential=True)
FREE = Node("free")


# Order


@pytest.mark.parametrize(
    ("nodes", "edges"),
    [
        ([], []),
        ([FREE, FREE], [[], []]),
        ([reads("x"), reads("x")], [[], []]),
        ([reads("x"), writes("y")], [[], []]),
        ([reads("x"), writes("x")], [[], [Edge(0, "x")]]),
        ([writes("x"), reads("x")], [[], [Edge(0, "x")]]),
        ([writes("x"), writes("x")], [[], [Edge(0, "x")]]),
        ([writes("y", "x"), reads("x", "y")], [[], [Edge(0, "x")]]),
        ([writes("x"), reads("x"), reads("x")], [[], [Edge(0, "x")], [Edge(0, "x")]]),
        ([FREE, ALONE, FREE], [[], [Edge(0)], [Edge(1)]]),
        ([ALONE, ALONE], [[], [Edge(0)]]),
        ([FREE, Node("late", needs=(0,))], [[], [Edge(0)]]),
        ([Node("early", needs=(1,)), FREE], [[Edge(1)], []]),
        ([Node("late", after=("free",)), FREE, FREE], [[Edge(1, must=True), Edge(2, must=True)], [], []]),
        ([Node("late", after=("nowhere",)), FREE], [[], []]),
        ([Node("late", ("write",), reads=names("x")), writes("x")], [[Edge(1, "x", must=True)], []]),
    ],
)
def test_each_call_waits_for_what_must_come_first(nodes, edges):
    assert order(nodes) == edges


def test_results_and_after_come_before_the_order_in_which_it_was_written():
    """The reader was written first, but it comes after the writer's tool."""
    reader = Node("read", after=("write",), reads=names("x"))
    assert order([reader, writes("x")]) == [[Edge(1, "x", must=True)], []]


def test_a_call_that_waits_for_itself_can_never_start_and_the_rest_can():
    """Its tool comes after the one that takes its result."""
    nodes = [Node("first", after=("second",)), Node("second", needs=(0,)), Node("late", after=("first",)), FREE]
    assert order(nodes) == [None, None, None, []]


TOOLS = "abcd"
NAMES = st.lists(st.sampled_from(["x", "y", "x:1", "x…"]), max_size=1).map(lambda texts: names(*texts))


@st.composite
def calls(draw) -> list[Node]:
    """Calls of tools that come after others, in no circle, and read and write this and that."""
    after = {name: tuple(draw(st.sets(st.sampled_from(TOOLS[:at])))) if at else () for at, name in enumerate(TOOLS)}
    nodes: list[Node] = []
    for place in range(draw(st.integers(0, 7))):
        name = draw(st.sampled_from(TOOLS))
        needs = draw(st.sets(st.integers(0, place - 1), max_size=2)) if place else ()
        sequential = draw(st.integers(0, 9)) == 0
        nodes.append(Node(name, after[name], sequential, draw(NAMES), draw(NAMES), tuple(needs)))
    return nodes


def first_of(nodes: Sequence[Node]) -> dict[int, set[int]]:
    """What must come first wherever it was written: results, and tools that others come after."""
    return {
        place: {at for at, other in enumerate(nodes) if at != place and other.tool in node.after} | set(node.needs)
        for place, node in enumerate(nodes)
    }


def sequence_of(first: dict[int, set[int]]) -> list[int]:
    """All places, each after what comes first; [] if there is a circle."""
    try:
        return list(TopologicalSorter(first).static_order())
    except CycleError:
        return []


def before(edges: dict[int, set[int]], place: int) -> set[int]:
    """All that ends before this call may start."""
    return edges[place].union(*(before(edges, other) for other in edges[place]))


@given(calls())
def test_calls_that_may_not_meet_are_never_free_to(nodes):
    edges = {place: {edge.place for edge in some or ()} for place, some in enumerate(order(nodes))}
    assert bool(sequence_of(edges)) == bool(nodes)
    stuck = {place for place, some in enumerate(order(nodes)) if some is None}
    assert bool(stuck) == (bool(nodes) and not sequence_of(first_of(nodes)))
    for one, other in combinations(set(range(len(nodes))) - stuck, 2):
        if conflicts(nodes[one], nodes[other]):
            assert one in before(edges, other) or other in before(edges, one)


@given(calls())
def test_what_comes_first_does(nodes):
    for place, edges in enumerate(order(nodes)):
        assert edges is None or first_of(nodes)[place] <= {edge.place for edge in edges}


KINDS = [
    Node("a"),
    Node("a", writes=names("x")),
    Node("b", after=("a",)),
    Node("b", after=("a",), reads=names("x")),
    reads("x"),
    writes("x"),
    ALONE,
]


def test_resources_and_barriers_keep_the_order_in_which_they_were_written():
    """Wherever that goes together with what must come first; all replies of four calls."""
    for nodes in product(KINDS, repeat=4):
        pairs = [pair for pair in combinations(range(4), 2) if conflicts(nodes[pair[0]], nodes[pair[1]])]
        written = first_of(nodes)
        for one, other in pairs:
            written[other].add(one)
        if sequence_of(written):
            edges = {place: {edge.place for edge in some or ()} for place, some in enumerate(order(nodes))}
            assert all(one in before(edges, other) for one, other in pairs), nodes


# Conflicts


@pytest.mark.parametrize(
    ("one", "other", "meets"),
    [
        (reads("x"), reads("x"), False),
        (reads("x"), writes("x"), True),
        (writes("x"), writes("x"), True),
        (writes("x"), writes("xy"), False),
        (writes("x…"), writes("xy"), True),
        (writes("x:…"), reads("x"), False),
        (writes("x:…"), reads("x:1…"), True),
        (writes("x:1…"), reads("x:…"), True),
        (writes("x:1…"), reads("x:2…"), False),
        (writes("…"), reads("anything"), True),
        (ALONE, FREE, True),
        (FREE, FREE, False),
    ],
)
def test_writers_meet_nobody_at_their_resource_and_a_barrier_nobody_at_all(one, other, meets):
    assert conflicts(one, other) is conflicts(other, one) is meets


# Names of resources


def template(text: str, *parameters: str):
    return read_template("reads", text, parameters)


@pytest.mark.parametrize(
    ("text", "arguments", "resource"),
    [
        ("orders", {}, "orders"),
        ("order:{key}", {"key": "7"}, "order:7"),
        ("order:{key}", {"key": 7}, "order:7"),
        ("{key}:{other}", {"key": "a", "other": "b"}, "a:b"),
        ("{{orders}}", {}, "{orders}"),
    ],
)
def test_arguments_are_filled_in(text, arguments, resource):
    assert resources([template(text, "key", "other")], arguments) == (Resource(resource),)


@pytest.mark.parametrize(
    ("text", "resource"),
    [
        ("orders", Resource("orders")),
        ("order:{key}", Resource("order:", exact=False)),
        ("{key}", Resource("", exact=False)),
        ("{{orders}}", Resource("{orders}")),
    ],
)
def test_without_arguments_only_how_a_name_begins_is_known(text, resource):
    assert resources([template(text, "key")], None) == (resource,)


# Circles


def after(**others: tuple[str, ...]) -> list:
    async def work() -> None: ...

    return [tool(work, name=name, after=first) for name, first in others.items()]


@pytest.mark.parametrize(
    "tools", [{}, {"a": ()}, {"a": ("b",), "b": ()}, {"a": ("b", "c"), "b": ("d",), "c": ("d",), "d": ()}]
)
def test_tools_that_come_one_after_the_other_are_fine(tools):
    check_acyclic(after(**tools))


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        (
            {"a": ("b",), "b": ("a",)},
            "These tools wait for each other: a after b after a. Take one `after` away.",
        ),
        (
            {"x": ("a",), "a": ("b",), "b": ("c",), "c": ("a",)},
            "These tools wait for each other: a after b after c after a. Take one `after` away.",
        ),
        ({"a": ("b",)}, "The tool a comes after b, but the agent has no tool b."),
    ],
)
def test_a_circle_is_found_when_the_agent_is_made(tools, said):
    with pytest.raises(ConfigError) as caught:
        check_acyclic(after(**tools))
    assert str(caught.value) == said
