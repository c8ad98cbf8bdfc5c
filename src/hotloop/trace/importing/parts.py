"""What a run consists of: its requests, tools and all between them, each with the time that is its own."""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Iterator

import msgspec

from hotloop.trace.importing import names
from hotloop.trace.importing.intervals import Interval, is_free, left_by, together
from hotloop.trace.importing.names import told_text
from hotloop.trace.importing.roles import Role
from hotloop.trace.importing.tree import Node, below

# Of these nothing is looked at but the requests to models that are in them.
_INSIDE_OUT: tuple[Role, ...] = ("tool", "memory", "guard")
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
    own: list[Interval] = []

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
            part.own = part.own or left_by(_times(children), part.node.start, part.node.end)
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
        """The children as parts.

        Those in which nothing is done have of their time only what no other has: frameworks put around an agent's step
        what is beside it in the tree.
        """
        within = part.node if part.role in _INSIDE_OUT else part.within
        working = [child for child in children if id(child) in self._working]
        lines, busy = self._lines_of(part, working), _times(working)
        placed = []
        for child in children:
            agent = _agent_of(child) or (child.span.name if within is part.node else part.agent)
            made = Part(child, lines.get(id(child), part.line), within, agent)
            if id(child) not in lines:
                made.own = left_by(busy, child.start, child.end)
            placed.append(made)
        return placed

    def _lines_of(self, part: Part, working: list[Node]) -> dict[int, int]:
        """On which line each of these is: on that of the part around them while it is free, beside it otherwise.

        What a model is asked in has precedence. An agent that is a tool is beside it if others are at work meanwhile.
        (Of other tools this matters where no reply is known that called them; else they have lanes of their own.)
        """
        lines: dict[int, int] = {}
        taken: list[Interval] = []
        accompanied = _accompanied(working)
        for child in sorted(working, key=lambda child: id(child) not in self._thinking):
            agent = child.role == "tool" and id(child) in self._thinking
            if is_free(taken, child.start, child.end) and not (agent and id(child) in accompanied):
                lines[id(child)] = part.line
                insort(taken, (child.start, child.end))
            else:
                lines[id(child)] = self._line_beside(child)
        return lines

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


def _accompanied(nodes: list[Node]) -> set[int]:
    """Those beside which others are at work; they are in the order of their starts."""
    found: set[int] = set()
    ended = 0
    for place, node in enumerate(nodes):
        following = nodes[place + 1 : place + 2]
        if node.start < ended or (following and following[0].start < node.end):
            found.add(id(node))
        ended = max(ended, node.end)
    return found


def _agent_of(node: Node) -> str:
    return told_text(node.span.attributes, names.AGENT)


def _times(nodes: list[Node]) -> list[Interval]:
    """When any of these is at work; they are in the order of their starts."""
    return together((node.start, node.end) for node in nodes)
