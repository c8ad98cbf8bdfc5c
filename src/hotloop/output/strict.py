"""A schema in the part of JSON Schema that services know which hold a model to it to the letter."""

from __future__ import annotations

from hotloop.models.formats import FORMATS
from hotloop.tools.defining.minimal import Schema, rewrite

_UNKNOWN = frozenset(
    [
        *("default", "examples", "deprecated", "readOnly", "writeOnly", "contentEncoding", "contentMediaType"),
        *("minLength", "maxLength", "minProperties", "maxProperties", "propertyNames", "uniqueItems"),
    ]
)
_IMPOSSIBLE = frozenset(
    ["prefixItems", "patternProperties", "not", "if", "then", "else", "dependentRequired", "dependentSchemas"]
)
_SAYING = ("type", "anyOf", "enum", "const", "$ref")


class _TooOpen(Exception):
    """A part of the schema leaves open what cannot be left open."""


def strict(schema: Schema) -> Schema | None:
    """The same with every object closed and every key required; None for a schema that cannot be written so.

    What it no longer says (lengths, defaults, odd formats) is left to validation.
    """
    try:
        return rewrite(schema, _strict)
    except _TooOpen:
        return None


def _strict(part: Schema) -> Schema:
    if part.keys() & _IMPOSSIBLE or isinstance(part.get("items"), bool):
        raise _TooOpen
    if "$ref" in part:  # which may have nothing beside it
        return {"$ref": part["$ref"]} | ({"$defs": part["$defs"]} if "$defs" in part else {})
    kept = {key: value for key, value in part.items() if key not in _UNKNOWN}
    if kept.get("format") not in FORMATS:
        kept.pop("format", None)
    if "oneOf" in kept:
        kept["anyOf"] = kept.pop("oneOf")
    kept |= _only(kept.pop("allOf", []))
    if not any(key in kept for key in _SAYING) or ("array" in _kinds(kept) and "items" not in kept):
        raise _TooOpen
    return kept | _closed(kept) if "object" in _kinds(kept) else kept


def _closed(part: Schema) -> Schema:
    if "properties" not in part or part.get("additionalProperties"):
        raise _TooOpen
    return {"required": list(part["properties"]), "additionalProperties": False}


def _only(parts: list[Schema]) -> Schema:
    """What `allOf` says, if it is one thing."""
    if len(parts) > 1:
        raise _TooOpen
    return parts[0] if parts else {}


def _kinds(part: Schema) -> list[str]:
    kinds = part.get("type", [])
    return kinds if isinstance(kinds, list) else [kinds]
