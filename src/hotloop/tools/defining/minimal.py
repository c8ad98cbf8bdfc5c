"""How a JSON Schema gets short: nothing in it that a model does not need, references only where they pay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from hotloop.tools.defining.docstring import parse

Schema: TypeAlias = dict[str, Any]

_MAPS = ("properties", "$defs", "patternProperties")
_LISTS = ("anyOf", "allOf", "oneOf", "prefixItems")
_SINGLES = ("items", "additionalProperties", "propertyNames", "contains", "not")
_NOISE = ("title", "discriminator", "$schema")
_SILENT: dict[str, tuple[Any, ...]] = {
    "default": (None, "", [], {}),
    "description": ("",),
    "required": ([],),
    "additionalProperties": (True, {}),
    "items": ({},),
}
_NO_MERGE = {"anyOf", "oneOf", "allOf", "not", "const", "$ref"}


def minimal(schema: Schema) -> Schema:
    """The same schema without titles, empty defaults and other noise, and with references only where they are shorter.

    Recursive types keep their `$defs`. What validates against the schema stays the same.
    """
    return rewrite(_inline(rewrite(schema, _strip)), _merge_options)


def rewrite(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """A copy of the schema with every schema in it changed, the inner ones first."""
    copy = {}
    for key, value in schema.items():
        if key in _MAPS:
            value = {name: _rewritten(part, change) for name, part in value.items()}
        elif key in _LISTS:
            value = [_rewritten(part, change) for part in value]
        elif key in _SINGLES and isinstance(value, dict):
            value = rewrite(value, change)
        copy[key] = value
    return change(copy)


def _rewritten(part: Any, change: Callable[[Schema], Schema]) -> Any:
    """The same for what may also be true or false, which are schemas too."""
    return rewrite(part, change) if isinstance(part, dict) else part


def reference(name: str) -> Schema:
    """A schema that stands for the component of this name."""
    return {"$ref": f"#/$defs/{name}"}


def referred(schema: Schema) -> str | None:
    """The name of the component that this schema refers to, if it does."""
    place: str | None = schema.get("$ref")
    return None if place is None else place.removeprefix("#/$defs/")


def references(schema: Schema) -> list[str]:
    """The names of the components that this schema refers to, each as often as it does."""
    found: list[str] = []

    def note(part: Schema) -> Schema:
        name = referred(part)
        if name is not None:
            found.append(name)
        return part

    rewrite(schema, note)
    return found


def _strip(schema: Schema) -> Schema:
    if "properties" in schema and "description" in schema:  # a class's whole docstring
        schema = schema | {"description": parse(schema["description"]).summary}
    return {key: value for key, value in schema.items() if key not in _NOISE and not _says_nothing(key, value)}


def _says_nothing(key: str, value: Any) -> bool:
    return any(type(value) is type(silent) and value == silent for silent in _SILENT.get(key, ()))


def _inline(schema: Schema) -> Schema:
    """Put components in place that are used once, or are no longer than the references to them."""
    components = schema.pop("$defs", {})
    uses = Counter(references({**schema, "$defs": components}))
    inlined = {name for name, body in components.items() if _pays(uses[name], name, body)}

    def resolve(part: Schema) -> Schema:
        name = referred(part)
        if name not in inlined:
            return part
        siblings = {key: value for key, value in part.items() if key != "$ref"}
        return rewrite(components[name], resolve) | siblings

    kept = {name: rewrite(body, resolve) for name, body in components.items() if name not in inlined}
    return rewrite(schema, resolve) | ({"$defs": kept} if kept else {})


def _pays(uses: int, name: str, body: Schema) -> bool:
    if uses <= 1:
        return True
    in_place = uses * _length(body)
    apart = _length({name: body}) + uses * _length(reference(name))
    return in_place <= apart and not references(body)


def _length(schema: Schema) -> int:
    return len(msgspec.json.encode(schema))


def _merge_options(schema: Schema) -> Schema:
    """Write a choice of types as a list of types, where that says the same."""
    merged = _merged(schema.get("anyOf", []))
    if merged is None or "type" in schema:
        return schema
    return merged | {key: value for key, value in schema.items() if key != "anyOf"}


def _merged(options: list[Schema]) -> Schema | None:
    """One schema for all options: the limits of one of them hold only for values of its own type anyway."""
    if not options or not all(isinstance(option, dict) and "type" in option for option in options):
        return None
    if any(option.keys() & _NO_MERGE for option in options):
        return None
    detailed = [option for option in options if option.keys() != {"type"}]
    if any("null" in _kinds(option) for option in detailed):
        options = [option for option in options if option != {"type": "null"}]
    kinds = [kind for option in options for kind in _kinds(option)]
    if not detailed:
        return {"type": _type(kinds)}
    overlap = len({"number" if kind == "integer" else kind for kind in kinds}) < len(kinds)
    if len(detailed) > 1 or overlap:
        return None
    return _with_types(detailed[0], kinds)


def _with_types(schema: Schema, kinds: list[str]) -> Schema | None:
    added = set(kinds) - set(_kinds(schema))
    if "enum" not in schema or not added:
        return schema | {"type": _type(kinds)}
    return schema | {"type": _type(kinds), "enum": [*schema["enum"], None]} if added == {"null"} else None


def _kinds(schema: Schema) -> list[str]:
    return schema["type"] if isinstance(schema["type"], list) else [schema["type"]]


def _type(kinds: list[str]) -> str | list[str]:
    different = [kind for kind in dict.fromkeys(kinds) if not (kind == "integer" and "number" in kinds)]
    return different if len(different) > 1 else different[0]
