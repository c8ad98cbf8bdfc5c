"""What a request body takes: the fields of an object as arguments of their own, or one argument for all of it."""

from __future__ import annotations

from typing import Literal

import msgspec

from hotloop.tools.minimal import Schema
from hotloop.tools.openapi.document import Node
from hotloop.tools.openapi.schemas import Schemas, shorten
from hotloop.tools.openapi.slots import LONGEST, LeftOut, Slot, anything, argument_name, is_json, only_value

_NOT_FLAT = {"anyOf", "not", "patternProperties", "propertyNames", "minProperties", "maxProperties"}


class Body(msgspec.Struct, frozen=True):
    """How a body is written, and whether there is one even without arguments."""

    media_type: str
    kind: Literal["json", "form", "text"]
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
        _field(name, part, name in fields["required"], content, schemas) for name, part in fields["properties"].items()
    ]


def _media_type(node: Node) -> tuple[str, Literal["json", "form", "text"]]:
    """The kind of content that says most among those that can be written, and what it is."""
    types = node.get("content").names()
    for media_type in types:
        if is_json(media_type) or media_type == "*/*":
            return media_type, "json"
    for media_type in types:
        if media_type.startswith("application/x-www-form-urlencoded"):
            return media_type, "form"
    for media_type in types:
        if media_type.startswith("text/plain"):
            return media_type, "text"
    raise LeftOut(f"its body is {' or '.join(types) or 'of no type'}")


def _field(name: str, schema: Schema, required: bool, content: Node, schemas: Schemas) -> Slot:
    encoding = content.get("encoding").get(name)
    return Slot(
        name=name,
        place="body",
        argument=argument_name(name),
        schema=schema,
        required=required,
        style=encoding.text("style", "form"),
        explode=encoding.get("explode").value is not False,
        fixed=only_value(schema, schemas) if required else msgspec.UNSET,
    )


def _whole(node: Node, body: Body, schema: Schema) -> Slot:
    """A body as one argument."""
    schema = {"type": "object"} | schema if body.kind == "form" else dict(schema)
    if description := shorten(node.text("description"), LONGEST):
        schema["description"] = description
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
