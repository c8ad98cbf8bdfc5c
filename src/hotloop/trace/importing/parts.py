"""What a run consists of: its requests, tools and all between them, each with the time that is its own."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import msgspec

from hotloop.trace.importing import names
from hotloop.trace.importing.names import told_text
from hotloop.trace.importing.roles import Role
from hotloop.trace.importing.tree import Node, below

_INSIDE_OUT: tuple[Role, ...] = (
    "tool",
    "memory",
    "guard",
)  # looked into only for the requests to models that are in them
_WORK: tuple[Role, ...] = ("model", "http", *_INSIDE_OUT)


class Part(msgspec.Struct, gc=False):
    """A node of a run.

    `own` is what of its time no other part has. Parts of one `line` follow each other; the run's own is 0, and others
    are for what goes on beside it. `within` is the tool (or the like) around it, None for what the run itself does.
    `whole` tells that nothing below it is a part.
    """

    node: Node
    line: int
    within: Node | None
    agent: str = ""
    whole: bool = False
    own: list[tuple[int, int]] = []

    @property
    def role(self) -> Role:
        """What it is."""
        return self.node.role


def parts_of(run: Node) -> list[Part]:
    """The parts of a run, itself first, those around others before them."""
    return list(_Parts(run).found())


class _Parts:
    def __init__(self, run: Node) -> None:
        self._run = run
        self._thinking, self._working = _with(("model",), run), _with(_WORK, run)
        self._lines: list[tuple[int, int]] = []  # that are in use: until when, and which
        self._made = 0

    def found(self) -> Iterator[Part]:
        left = [Part(self._run, 0, None, _agent_of(self._run))]
        while left:
            part = left.pop()
            children = self._opened(part.node)
            part.whole = not children
            part.own = part.own or _left_by([(child.start, child.end) for child in children], part.node)
            yield part
            left += reversed(self._placed(part, children))

    def _opened(self, node: Node) -> list[Node]:
        """What of a node is parts of their own."""
        if node.role == "model" or id(node) not in self._working:
            return []
        if node.role in _INSIDE_OUT and id(node) not in self._thinking:
            return []
        return node.children

    def _placed(self, part: Part, children: list[Node]) -> list[Part]:
        """The children as parts: on the line of their parent while it is free, beside it otherwise.

        Those in which nothing is done have of their time only what no other has: frameworks put around an agent's step
        what is beside it in the tree.
        """
        node = part.node
        within = node if node.role in _INSIDE_OUT else part.within
        agents = [_agent_of(child) or (child.span.name if within is node else part.agent) for child in children]
        working = [(child.start, child.end) for child in children if id(child) in self._working]
        free = ended = node.start
        placed = []
        for place, child in enumerate(children):
            if id(child) not in self._working:
                placed.append(Part(child, part.line, within, agents[place], own=_left_by(working, child)))
                continue
            line = part.line
            if child.role != "tool" or id(child) in self._thinking:  # other calls have lanes of their own
                ahead = children[place + 1].start if place + 1 < len(children) else child.end
                beside = child.role == "tool" and (child.start < ended or ahead < child.end)
                if beside or child.start < free:
                    line = self._line_beside(child)
                else:
                    free = child.end
            ended = max(ended, child.end)
            placed.append(Part(child, line, within, agents[place]))
        return placed

    def _line_beside(self, node: Node) -> int:
        """A line that nothing else is on for as long as this node lasts."""
        if self._lines and self._lines[0][0] <= node.start:
            _, line = heapq.heappop(self._lines)
        else:
            self._made += 1
            line = self._made
        heapq.heappush(self._lines, (node.end, line))
        return line


def _with(roles: tuple[Role, ...], run: Node) -> set[int]:
    """The nodes of these roles, and all around them."""
    found: set[int] = set()
    for node in reversed(list(below(run))):
        if node.role in roles or id(node) in found:
            found.add(id(node))
            if node.parent is not None:
                found.add(id(node.parent))
    return found


def _agent_of(node: Node) -> str:
    return told_text(node.span.attributes, names.AGENT)


def _left_by(taken: list[tuple[int, int]], node: Node) -> list[tuple[int, int]]:
    """The times of a node that none of these takes, which are in the order of their starts."""
    own = []
    at = node.start
    for start, end in taken:
        if start >= node.end:
            break
        if start > at:
            own.append((at, start))
        at = max(at, end)
    if node.end > at:
        own.append((at, node.end))
    return own
