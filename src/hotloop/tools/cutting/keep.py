"""The parts of a JSON result that a model reads, such as `items[].sku`: in their shape, and nothing else with them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from types import GenericAlias
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from hotloop.errors import ArgumentsError, ToolDefinitionError
from hotloop.tools.cutting.cut import decode
from hotloop.tools.cutting.shorten import SIGN, to_json
from hotloop.tools.paths import Path, parse_path, write_path

_Tree = dict[str | None, "_Tree"]
"""What follows each name, or all items (None); nothing follows where the whole of a value is kept."""


class Keep:
    """Parts of results. `sign` is a name that none of them has at the top.

    They are found by decoding to types that have nothing else: what is left out is skipped, not read.
    """

    __slots__ = ("_all", "_parts", "_tree", "sign")

    def __init__(self, tree: _Tree) -> None:
        self._tree = tree
        self._parts = msgspec.json.Decoder(_type(tree, closed=False)).decode
        self._all = msgspec.json.Decoder(_type(tree, closed=True)).decode
        self.sign = SIGN
        while self.sign in tree:
            self.sign += SIGN

    def of(self, content: str) -> str | None:
        """These parts of a result as JSON.

        None if that is all of it, if it has none of them, or if it is no JSON of this shape; what is null or text
        where a path goes on stays as it is.
        """
        with suppress(msgspec.DecodeError, RecursionError):
            self._all(content)
            return None
        with suppress(msgspec.DecodeError, RecursionError):
            found = self._parts(content)
            return msgspec.json.format(to_json(found), indent=-1) if _shows_something(found) else None
        return None

    def in_order(self, content: str) -> str:
        """The same parts, their names in the order of the whole: what lies behind a place in them does so in it."""
        return to_json(_picked(decode(content), self._tree))

    def marked(self, parts: str, mark: str) -> str:
        """The parts with a mark at their end."""
        member = f"{to_json(self.sign)}:{to_json(mark)}"
        return f"{parts[:-1]},{{{member}}}]" if parts[0] == "[" else f"{parts[:-1]},{member}}}"


def read_keep(texts: Iterable[str]) -> Keep:
    """The parts that these paths lead to. Raises ToolDefinitionError for what is no path, or if two contradict."""
    tree: _Tree = {}
    for text in texts:
        _add(tree, _path(text), text)
    try:
        return Keep(tree)
    except ValueError:  # msgspec has no fields of such names
        raise ToolDefinitionError("keep: names with quotes, backslashes or control characters cannot be kept") from None


def _path(text: str) -> Path:
    try:
        path = parse_path(text)
    except ArgumentsError:
        raise ToolDefinitionError(f"keep: {text!r} is no path; write one like status or items[].sku") from None
    if not path:
        raise ToolDefinitionError(f"keep: {text!r} is all of a result; name parts of it, or leave keep out")
    if numbers := [part for part in path if isinstance(part, int)]:
        raise ToolDefinitionError(f"keep: {text!r} names one item, [{numbers[0]}]; of a list keep all items, []")
    return path


def _add(tree: _Tree, path: Path, text: str) -> None:
    """Add a path; whatever is kept as a whole stays so."""
    for at, part in enumerate(path):
        assert not isinstance(part, int)
        if tree and (None in tree) != (part is None):
            place = write_path(path[:at]).removeprefix(".") or "the result"
            raise ToolDefinitionError(f"keep: by {text!r} {place} is {_KIND[part is None]}, by others not")
        known = part in tree
        after = tree.setdefault(part, {})
        if known and not after:
            return
        tree = after
    tree.clear()


_KIND = {True: "a list", False: "an object"}


def _type(tree: _Tree, *, closed: bool) -> Any:
    """The type of a value of which this is kept; where nothing else may be in it, it is `closed`."""
    if not tree:
        return Raw
    inner = [(name, _type(after, closed=closed)) for name, after in tree.items()]
    types = [(name, kind if kind is Raw else kind | str | None) for name, kind in inner]
    if None in tree:
        return GenericAlias(list, types[0][1])
    fields = [(f"f{at}", kind, msgspec.field(name=name, default=UNSET)) for at, (name, kind) in enumerate(types)]
    return msgspec.defstruct("Kept", fields, forbid_unknown_fields=closed, gc=False)


def _shows_something(found: Any) -> bool:
    """Whether there is anything in it but objects of which nothing is kept."""
    if isinstance(found, list):
        return not found or any(map(_shows_something, found))
    if isinstance(found, msgspec.Struct):
        return any(map(_shows_something, msgspec.structs.astuple(found)))
    return found is not UNSET


def _picked(value: Any, tree: _Tree) -> Any:
    if tree and isinstance(value, list):
        return [_picked(item, tree[None]) for item in value]
    if tree and isinstance(value, dict):
        return {name: _picked(inner, tree[name]) for name, inner in value.items() if name in tree}
    return value
