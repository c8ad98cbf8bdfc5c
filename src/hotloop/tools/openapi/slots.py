"""Which argument of a tool goes where in the request: the parameters of an operation."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from hotloop.tools.defining.foreign import is_readable, naming
from hotloop.tools.defining.minimal import Schema
from hotloop.tools.openapi.document import Node
from hotloop.tools.openapi.schemas import Schemas, described
from hotloop.words import free_name

Place = Literal["path", "query", "header", "body"]
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # what the name of a header or a cookie may be

_STYLES = {"path": ("simple",), "query": ("form", "deepObject"), "header": ("simple",)}
_OURS = {
    *("accept", "authorization", "connection", "content-length", "content-type"),
    *("cookie", "host", "traceparent", "tracestate", "transfer-encoding"),
}


class LeftOut(Exception):
    """Why an operation cannot be a tool."""


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """One argument in the request: what the service calls it, where and how it is written.

    One in the body without a name is the whole body.
    """

    name: str
    place: Place
    argument: str
    schema: Schema
    required: bool = False
    style: str = "form"
    explode: bool = True
    json: bool = False


def read_parameters(item: Node, operation: Node, schemas: Schemas, taken: set[tuple[str, str]]) -> list[Slot]:
    """An operation's parameters and those of its path; `taken` are those that credentials fill: ("header", "x-key").

    Raises LeftOut for what cannot be sent, ToolDefinitionError for what is not well-formed.
    """
    nodes: dict[tuple[str, str], Node] = {}
    for node in [*item.get("parameters").elements(), *operation.get("parameters").elements()]:
        node = node.followed()
        nodes[node.text("in"), node.text("name")] = node
    return [
        _parameter(node, schemas)
        for (place, name), node in nodes.items()
        if (place, name.lower()) not in taken
        and not (place == "header" and name.lower() in _OURS)
        and (node.flag("required") or not (node.flag("deprecated") or place == "cookie"))
    ]


def argument_name(name: str) -> str:
    """A name as services take it for an argument."""
    return re.sub(r"[^a-zA-Z0-9_.-]+", "_", name).strip("_")[:64] or "value"


def named_apart(slots: Iterable[Slot]) -> list[Slot]:
    """The slots with an argument's name each: the place is added where two have the same."""
    named: dict[str, Slot] = {}
    for slot in slots:
        taken = slot.argument in named
        argument = free_name(f"{slot.argument[:52]}_{slot.place}", named) if taken else slot.argument
        named[argument] = msgspec.structs.replace(slot, argument=argument, schema=_naming(slot))
    return list(named.values())


def _naming(slot: Slot) -> Schema:
    """The slot's schema; it tells the slot's own name where the argument's does not show it."""
    if not slot.name or is_readable(slot.name):
        return slot.schema
    return slot.schema | {"description": naming(slot.name, slot.schema.get("description", ""))}


def check_style(place: str, name: str, style: str) -> str:
    """The style, if values are written in it there. Raises LeftOut."""
    if style not in _STYLES[place]:
        raise LeftOut(f"its parameter {name} has the style {style}")
    return style


def anything(node: Node) -> Node:
    """The schema that says nothing, in the place of one that is missing."""
    return Node(True, node.place, node.document)


def is_json(media_type: str) -> bool:
    """Whether content of this type is JSON."""
    bare = media_type.partition(";")[0].strip().lower()
    return bare == "application/json" or bare.endswith("+json")


def _parameter(node: Node, schemas: Schemas) -> Slot:
    name, place, required = node.text("name"), node.text("in"), node.flag("required")
    if place == "cookie":
        raise LeftOut(f"it wants the cookie {name}")
    if not name or place not in _STYLES:
        raise node.fault("a parameter needs a name, and one of path, query, header and cookie as in")
    if place == "header" and not TOKEN.fullmatch(name):
        raise node.fault(f"{name!r} cannot be the name of a header")
    style = check_style(place, name, node.text("style", _STYLES[place][0]))
    content = _content(node)
    schema = schemas.read((content or node).get("schema") or anything(node))
    return Slot(
        name=name,
        place=place,  # type: ignore[arg-type]  # it is a key of _STYLES
        argument=argument_name(name),
        schema=described(schema, node),
        required=required or place == "path",
        style=style,
        explode=node.flag("explode") if node.get("explode") else style == "form",
        json=bool(content),
    )


def _content(node: Node) -> Node:
    """What a parameter says of its content, if it is written as JSON instead of in a style."""
    for media_type, content in node.get("content").items():
        if is_json(media_type):
            return content
        raise LeftOut(f"its parameter {node.text('name')} is written as {media_type}")
    return node.get("content")
