"""Schemas as OpenAPI 3.0 and 3.1 write them, to JSON Schema with only what a model needs to fill in arguments."""

from __future__ import annotations

import functools
import re

from hotloop.tools.defining.docstring import parse
from hotloop.tools.defining.minimal import Schema, reference, references, referred
from hotloop.tools.openapi.document import Node
from hotloop.words import free_name, short

_KEPT = {
    *("type", "enum", "const", "format", "pattern", "contentEncoding", "minLength", "maxLength"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("required", "minProperties", "maxProperties", "minItems", "maxItems", "uniqueItems"),
    *("description", "default"),
}
_ANNOTATIONS = {"description", "default"}
_LISTS = ("anyOf", "allOf", "prefixItems")
_SINGLES = ("items", "additionalProperties", "propertyNames", "contains", "not")
_SAY_NOTHING = ("byte", "int32", "int64", "float", "double", "binary")
_LINK = re.compile(r"\[([^\]]*)\]\([^)\s]*\)")
_LONGEST = 200  # characters of a description


class Schemas:
    """The schemas of one document; a component is read once, however many tools use it."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}  # of a component, by the identity of what the document says of it
        self._nodes: dict[str, Node] = {}
        self._components: dict[str, Schema] = {}

    def read(self, node: Node) -> Schema:
        """The schema at a node; it refers to components, which `complete` adds.

        Raises ToolDefinitionError, with the place, for what is no schema or refers to what is not there.
        """
        if isinstance(node.value, bool):
            return {} if node.value else {"not": {}}
        if isinstance(node.get("$ref").value, str):
            return self._reference(node)
        schema = {key: node.value[key] for key in node.names() if key in _KEPT}
        if not isinstance(schema.get("required", []), list):
            del schema["required"]  # as it was written before JSON Schema 4, for the property itself
        for key in _LISTS:
            if node.get(key):
                schema[key] = [self.read(part) for part in node.get(key).elements()]
        if node.get("oneOf"):  # options that differ only in format fit together, which oneOf would refuse
            schema.setdefault("anyOf", [self.read(part) for part in node.get("oneOf").elements()])
        for key in _SINGLES:
            if isinstance(node.get(key).value, dict | bool):
                schema[key] = node.value[key] if isinstance(node.value[key], bool) else self.read(node.get(key))
        return _modern(node, _alone(_readable(self._with_properties(node, schema))))

    def resolved(self, schema: Schema) -> Schema:
        """What a schema that may be a reference stands for, without what is said beside the reference."""
        name = referred(schema)
        return schema if name is None else self.resolved(self._component(name))

    def complete(self, schema: Schema) -> Schema:
        """A schema with the components that it needs."""
        needed: dict[str, Schema] = {}
        names = set(references(schema))
        while names:
            name = names.pop()
            needed[name] = self._component(name)
            names |= set(references(needed[name])) - needed.keys()
        return schema | {"$defs": needed} if needed else schema

    def _component(self, name: str) -> Schema:
        if name not in self._components:
            self._components[name] = self.read(self._nodes[name])
        return self._components[name]

    def _reference(self, node: Node) -> Schema:
        target = node.followed()
        name = self._names.get(id(target.value))
        if name is None:
            wanted = re.sub(r"\W", "_", target.place.rpartition(".")[2], flags=re.ASCII)
            name = self._names[id(target.value)] = free_name(wanted, self._nodes)
            self._nodes[name] = target
        beside = {key: part for key, part in node.value.items() if key != "$ref"}
        said = self.read(Node(beside, node.place, node.document))
        if said.keys() <= _ANNOTATIONS:
            return reference(name) | said
        return {"allOf": [reference(name)]} | said

    def _with_properties(self, node: Node, schema: Schema) -> Schema:
        """What only the service may set is none of the model's business."""
        properties = node.get("properties")
        if not properties:
            return schema
        kept = {name: part for name, part in properties.items() if not _is_read_only(part)}
        schema["properties"] = {name: self.read(part) for name, part in kept.items()}
        hidden = set(properties.names()) - kept.keys()
        schema["required"] = [name for name in schema.get("required", []) if name not in hidden]
        return schema


def described(schema: Schema, node: Node) -> Schema:
    """The schema with what the node that has it says of it, if it does."""
    description = shorten(node.text("description"), _LONGEST)
    return schema | {"description": description} if description else schema


def shorten(text: str, longest: int) -> str:
    """The first paragraph of a text in one line, links without their addresses, cut to `longest` characters."""
    return short(_LINK.sub(r"\1", parse(text).summary), longest)


def _is_read_only(node: Node) -> bool:
    return isinstance(node.value, dict) and (node.flag("readOnly") or node.followed().value.get("readOnly") is True)


def _readable(schema: Schema) -> Schema:
    """Without what says nothing to a model, or cannot be checked here: the service checks it too."""
    if isinstance(description := schema.get("description"), str):
        schema["description"] = shorten(description, _LONGEST)
    if schema.get("format") == "byte":
        schema["contentEncoding"] = "base64"
    if schema.get("format") in _SAY_NOTHING:
        del schema["format"]
    if isinstance(pattern := schema.get("pattern"), str) and not _is_pattern(pattern):
        del schema["pattern"]
    return schema


def _alone(schema: Schema) -> Schema:
    """A part of `allOf` that is the only one, as its own."""
    parts: list[Schema] = schema.get("allOf", [])
    if len(parts) != 1 or not schema.keys() <= {"allOf", *_ANNOTATIONS}:
        return schema
    return parts[0] | {key: said for key, said in schema.items() if key in _ANNOTATIONS}


def _modern(node: Node, schema: Schema) -> Schema:
    """What OpenAPI 3.0 wrote in its own way."""
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(schema.get(exclusive), bool) and schema.pop(exclusive) and limit in schema:
            schema[exclusive] = schema.pop(limit)
    return _nullable(schema) if node.flag("nullable") else schema


def _nullable(schema: Schema) -> Schema:
    if "type" not in schema:
        return {"anyOf": [schema, {"type": "null"}]} if schema.keys() & {"$ref", "allOf", "anyOf"} else schema
    if isinstance(options := schema.get("enum"), list) and None not in options:
        return schema  # the list has the last word
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return schema | {"type": [*kinds, "null"]} if "null" not in kinds else schema


@functools.lru_cache(1024)
def _is_pattern(pattern: str) -> bool:
    import jsonschema_rs

    try:
        jsonschema_rs.validator_for({"pattern": pattern})
    except jsonschema_rs.ValidationError:
        return False
    return True
