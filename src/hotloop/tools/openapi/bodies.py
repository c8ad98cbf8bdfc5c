"""What a request body takes: the fields of an object as arguments of their own, or one argument for all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from hotloop.tools.defining.minimal import Schema
from hotloop.tools.openapi.document import Node
from hotloop.tools.openapi.schemas import Schemas, described
from hotloop.tools.openapi.slots import LeftOut, Slot, anything, argument_name, check_style, is_json

Kind = Literal["json", "form", "text"]

_WRITTEN: dict[Kind, Callable[[str], bool]] = {
    "json": lambda media_type: is_json(media_type) or media_type == "*/*",
    "form": lambda media_type: media_type.startswith("application/x-www-form-urlencoded"),
    "text": lambda media_type: media_type.startswith("text/plain"),
}
_NOT_FLAT = {"anyOf", "not", "patternProperties", "propertyNames", "minProperties", "maxProperties"}


class Body(msgspec.Struct, frozen=True):
    """How a body is written, and whether there is one even without arguments."""

    media_type: str
    kind: Kind
    required: bool


def read_body(node: Node, schemas: Schemas, others: set[str]) -> tuple[Body | None, list[Slot]]:
    """The body at a node and its slots; `others` are the arguments that there are already.

    Raises LeftOut for content that cannot be written.
    """
    if not node:
        return None, []
    media_type, kind = _media_type(node)
    body = Body("application/json" if media_type == "*/*" else media_type, kind, node.flag("required"))
    content = node.get("content").get(media_type)
    schema = {"type": "string"} if kind == "text" else schemas.read(content.get("schema") or anything(node))
    fields = _fields(schema, schemas)
    names = {argument_name(name) for name in fields["properties"]}
    if not names or names & others or (fields["required"] and not body.required):
        return body, [_whole(node, body, schema)]
    return body, [
        _field(name, part, name in fields["required"], content.get("encoding").get(name))
        for name, part in fields["properties"].items()
    ]


def _media_type(node: Node) -> tuple[str, Kind]:
    """The kind of content that says most among those that can be written, and what it is."""
    types = node.get("content").names()
    for kind, fits in _WRITTEN.items():
        for media_type in filter(fits, types):
            return media_type, kind
    raise LeftOut(f"its body is {' or '.join(types) or 'of no type'}")


def _field(name: str, schema: Schema, required: bool, encoding: Node) -> Slot:
    return Slot(
        name=name,
        place="body",
        argument=argument_name(name),
        schema=schema,
        required=required,
        style=check_style("query", name, encoding.text("style", "form")),
        explode=encoding.get("explode").value is not False,
    )


def _whole(node: Node, body: Body, schema: Schema) -> Slot:
    """A body as one argument."""
    schema = described({"type": "object"} | schema if body.kind == "form" else schema, node)
    return Slot(name="", place="body", argument="body", schema=schema, required=body.required)


def _fields(schema: Schema, schemas: Schemas) -> Schema:
    """The properties of an object that has no others, parts of `allOf` put together; none if it is anything else."""
    none: Schema = {"properties": {}, "required": []}
    found, parts, read = none, [schema], list[Schema]()
    while parts:
        part = schemas.resolved(parts.pop())
        if part.keys() & _NOT_FLAT or part.get("additionalProperties") or part.get("type", "object") != "object":
            return none
        if not any(part is other for other in read):
            read.append(part)
            parts += part.get("allOf", [])
            found = {
                "properties": part.get("properties", {}) | found["properties"],
                "required": [*part.get("required", []), *found["required"]],
            }
    return found if set(found["required"]) <= found["properties"].keys() else none
