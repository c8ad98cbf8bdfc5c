"""The spans of a trace as a tree, with what is wrong between them put right: duplicates, gaps, circles, clocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hotloop.trace.importing.names import AI_OPERATION, AI_STREAM, TOKEN_EVENTS
from hotloop.trace.importing.roles import Role, role_of
from hotloop.trace.importing.span import INTERNAL, Span
from hotloop.words import counted

_HOSTS = ("host.id", "host.name", "service.instance.id", "service.name")


class Node:
    """A span in its place; `start` and `end` are Unix nanoseconds, within those of its parent.

    `waits` tells of a request to a model that its span goes on until the tools have ended that the reply called.
    """

    __slots__ = ("children", "end", "parent", "role", "span", "start", "waits")

    def __init__(self, span: Span, role: Role) -> None:
        self.span = span
        self.role = role
        self.start = span.start
        self.end = span.end
        self.parent: Node | None = None
        self.children: list[Node] = []
        self.waits = span.attributes.get(AI_OPERATION) == AI_STREAM


class Forest:
    """The trees of one trace, by their tops, and a sentence for each thing that was not as it should be."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self.warnings: list[str] = []
        nodes = {span.span_id: Node(span, role_of(span)) for span in _once_each(spans)}
        self.tops = self._linked(nodes)
        self.tops += _cut_circles(nodes, self.tops)
        self._adopt()
        for top in self.tops:
            _lift_tools(list(below(top)))
            self._set_times(top)

    def _linked(self, nodes: dict[str, Node]) -> list[Node]:
        """Parents and children know each other; those without a parent here."""
        tops = []
        for node in sorted(nodes.values(), key=lambda node: (node.span.start, -node.span.end)):
            parent = nodes.get(node.span.parent_id)
            if parent is None or parent is node:
                tops.append(node)
            else:
                _link(node, parent)
        return tops

    def _adopt(self) -> None:
        """Spans whose parents are missing belong to the root that there is, or to one that is made for them."""
        orphans = [node for node in self.tops if node.span.parent_id]
        roots = [node for node in self.tops if not node.span.parent_id]
        if len(roots) == 1:
            (root,) = roots
            lasting = [node for node in orphans if node.start < root.end or root.end < root.start]
            fitting = [node for node in lasting if node.end > root.start or node.end < node.start]
            if fitting:
                told = f"{_spans(len(fitting))} had a parent that is missing"
                self.warnings.append(f"{told}: put below the root")
        elif not roots and len(orphans) > 1:
            root, fitting = _stand_in(orphans), orphans
            roots = [root]
            self.warnings.append(
                "the root of the trace is missing: the run is taken to last from the first span to the last"
            )
        else:
            return
        for node in fitting:
            _link(node, root)
        self.tops = [*roots, *(node for node in orphans if node.parent is None)]

    def _set_times(self, top: Node) -> None:
        nodes = list(below(top))
        if unended := _end(nodes):
            self.warnings.append(f"{_spans(unended)} had no end: taken to last as long as what is below")
        if apart := _bring_together(nodes):
            self.warnings.append(f"clocks differ by up to {apart / 1e6:,.1f} ms: spans were moved into their parents")
        _fit(nodes)


def below(top: Node) -> Iterator[Node]:
    """A node and all below it, parents first, in their order."""
    left = [top]
    while left:
        node = left.pop()
        yield node
        left += reversed(node.children)


def _spans(number: int) -> str:
    return counted(number, "span")


def _once_each(spans: Iterable[Span]) -> Iterator[Span]:
    """An exporter that tries again sends a span twice; of those the one that ended last counts."""
    found: dict[str, Span] = {}
    for span in spans:
        before = found.get(span.span_id)
        if before is None or span.end > before.end:
            found[span.span_id] = span
    return iter(found.values())


def _link(node: Node, parent: Node) -> None:
    node.parent = parent
    parent.children.append(node)


def _cut_circles(nodes: dict[str, Node], tops: Sequence[Node]) -> list[Node]:
    """Spans that are each other's parents hang on nothing: the first one of each circle becomes a top."""
    reached = {id(node) for top in tops for node in below(top)}
    cut = []
    for node in sorted(nodes.values(), key=lambda node: node.span.start):
        if id(node) not in reached:
            assert node.parent is not None
            node.parent.children.remove(node)
            node.parent = None
            cut.append(node)
            reached |= {id(each) for each in below(node)}
    return cut


def _lift_tools(nodes: Sequence[Node]) -> None:
    """Tools below the request that called them are beside it: where its span goes on, it only waits for them."""
    for node in reversed(nodes):
        tools = [child for child in node.children if child.role == "tool"]
        if node.role == "model" and node.parent is not None and tools:
            node.waits = True
            node.children = [child for child in node.children if child.role != "tool"]
            for tool in tools:
                _link(tool, node.parent)
        node.children.sort(key=lambda child: (child.start, -child.end))


def _stand_in(orphans: Sequence[Node]) -> Node:
    first = orphans[0].span
    start, end = min(node.start for node in orphans), max(max(node.start, node.end) for node in orphans)
    span = Span(first.trace_id, "", "", "", INTERNAL, start, end, {}, [], False, "", first.resource)
    return Node(span, "other")


def _end(nodes: Sequence[Node]) -> int:
    """Give an end to those that have none, or one before their start; how many there were.

    Some instrumentations end the span of a streamed reply with its head: it lasts at least up to what they note later.
    Others end it with the tools that it called: it lasts at least until the last of them began, which is when its call
    was complete.
    """
    unended = 0
    for node in reversed(nodes):
        if node.role == "model":
            node.end = max(node.end, _last_token(node))
        if node.waits:
            node.end = _last_call(node) or node.end
        if node.end < node.start:
            node.end = max([node.start, *(child.end for child in node.children)])
            unended += 1
    return unended


def _last_token(node: Node) -> int:
    """When the last part of a reply came, as far as it was noted, and while what the request is part of went on."""
    around = node.parent
    while around is not None and around.role == "model":
        around = around.parent
    tokens = (event.at for event in node.span.events if event.name in TOKEN_EVENTS)
    return max((at for at in tokens if around is None or at <= around.end), default=0)


def _last_call(node: Node) -> int:
    """When the last tool beside a request began while that went on; 0 for none."""
    beside = node.parent.children if node.parent is not None else []
    return max((each.start for each in beside if each.role == "tool" and node.start < each.start < node.end), default=0)


def _bring_together(nodes: Sequence[Node]) -> int:
    """Move what another clock has timed into the time of its parent, with all below it; by how much at most."""
    moved: dict[int, int] = {}
    most = 0
    for node in nodes:
        if node.parent is None:
            continue
        by = moved.get(id(node.parent), 0)
        node.start, node.end = node.start + by, node.end + by
        more = _too_early_or_late(node, node.parent)
        node.start, node.end = node.start + more, node.end + more
        most = max(most, abs(more))
        if by + more:
            moved[id(node)] = by + more
    return most


def _too_early_or_late(node: Node, parent: Node) -> int:
    """By how much a node is to be moved to be within its parent's time, if it fits there at all."""
    if node.end - node.start > parent.end - parent.start:
        return 0
    if node.start < parent.start:
        return parent.start - node.start
    return parent.end - node.end if node.end > parent.end and _elsewhere(node, parent) else 0


def _elsewhere(node: Node, parent: Node) -> bool:
    ours, theirs = node.span.resource, parent.span.resource
    return ours is not theirs and any(ours.get(name) != theirs.get(name) for name in _HOSTS)


def _fit(nodes: Sequence[Node]) -> None:
    """What goes on after its parent: a request to a model is still part of it, all else is cut off there."""
    lasting = set()
    for node in reversed(nodes):
        if node.role == "model" or id(node) in lasting:
            parent = node.parent
            if parent is not None:
                lasting.add(id(parent))
                parent.end = max(parent.end, node.end)
    for node in nodes:
        if node.parent is not None:
            node.start = min(max(node.start, node.parent.start), node.parent.end)
            node.end = min(max(node.end, node.start), node.parent.end)
