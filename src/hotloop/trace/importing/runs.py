"""Which spans of a trace are runs of an agent: none, one, or several below a server's request or a script."""

from __future__ import annotations

from collections.abc import Iterable

from hotloop.trace.importing.tree import Node

_WHOLE = ("agent", "chain")
_PARTS = ("model", "tool")


def runs_of(tops: Iterable[Node]) -> list[Node]:
    """The nodes that are runs, in their order.

    That is the highest one of an agent, whatever is above it; any other node, if requests to models or tools are right
    below it; and a single request.
    """
    found = []
    left = [*tops][::-1]
    while left:
        node = left.pop()
        if node.role in _WHOLE or any(child.role in _PARTS for child in node.children) or node.role == "model":
            found.append(node)
        else:
            left += reversed(node.children)
    return found
