"""What the model is told about a tool's arguments: a JSON Schema made from types, as short as it can be.

Every token of a schema is prefilled with every request, so there are no titles, no empty defaults, no references to
what is used once, and no keyword that says nothing to a model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

import msgspec
from msgspec import inspect as mi

from hotloop.errors import ToolDefinitionError
from hotloop.tools.defining.docstring import parse
from hotloop.tools.defining.minimal import Schema, minimal, reference, referred, rewrite
from hotloop.tools.defining.signature import Parameter
from hotloop.words import free_name

_SCALARS: dict[type[mi.Type], Schema] = {
    mi.AnyType: {},
    mi.NoneType: {"type": "null"},
    mi.BoolType: {"type": "boolean"},
    mi.IntType: {"type": "integer"},
    mi.FloatType: {"type": "number"},
    mi.DecimalType: {"type": "number"},
    mi.StrType: {"type": "string"},
    mi.BytesType: {"type": "string", "contentEncoding": "base64"},
    mi.DateTimeType: {"type": "string", "format": "date-time"},
    mi.TimeType: {"type": "string", "format": "time"},
    mi.DateType: {"type": "string", "format": "date"},
    mi.TimeDeltaType: {"type": "string", "format": "duration"},
    mi.UUIDType: {"type": "string", "format": "uuid"},
}
_LIMITS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}
_SIZES = {"string": "Length", "array": "Items", "object": "Properties"}
_JSON_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
_INSTEAD = {
    "Path": "take a str and make the path inside the function",
    "Callable": "a model cannot write a function; take a name as Literal[...] and look it up",
    "complex": "take two floats",
    "object": "use Any, or better the types you expect",
    "ndarray": "take list[float]",
    "DataFrame": "take a list of rows",
}


def arguments_schema(parameters: Iterable[Parameter]) -> Schema:
    """The schema of an object with these parameters.

    Raises ToolDefinitionError for a type that no JSON text can stand for, or that cannot be told from another.
    """
    writer = _Writer()
    properties = {}
    for parameter in parameters:
        try:
            properties[parameter.name] = writer.parameter(parameter)
        except (TypeError, ValueError, NameError, NotImplementedError, RecursionError) as error:
            raise ToolDefinitionError(f"parameter {parameter.name!r}: {_advice(error)}") from error
    schema = _object(properties, [parameter.name for parameter in parameters if parameter.required])
    return minimal(schema | {"additionalProperties": False, "$defs": writer.components})


def _advice(error: Exception) -> str:
    if isinstance(error, NameError):
        return f"{error}, so its type cannot be read; define the type at the top level of its module"
    if str(error).startswith("Type unions"):
        return f"{error}; use one of the types, or msgspec Structs that carry a tag"
    return str(error)


class _Writer:
    """Writes schemas of types; classes become `components`, referred to by name."""

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}
        self._references: dict[Any, Schema] = {}

    def write(self, shape: mi.Type) -> Schema:
        match shape:
            case mi.Metadata():
                return self.write(shape.type) | (shape.extra_json_schema or {})
            case mi.LiteralType():
                return _choice(shape.values)
            case mi.UnionType():
                return {"anyOf": [self.write(option) for option in shape.types]}
            case mi.CollectionType():
                return {"type": "array", "items": self.write(shape.item_type)} | _sizes("array", shape)
            case mi.TupleType():
                return _tuple([self.write(item) for item in shape.item_types], len(shape.item_types))
            case mi.DictType():
                return self._dict(shape)
            case mi.EnumType():
                return self._component(shape.cls, _enum, shape.cls)
            case mi.CustomType():
                return self._custom(shape.cls)
            case mi.StructType() | mi.DataclassType() | mi.TypedDictType() | mi.NamedTupleType():
                return self._component(shape.cls, self._class, shape)
        return _scalar(shape)

    def parameter(self, parameter: Parameter) -> Schema:
        shape = mi.type_info(parameter.type)
        return self._property(shape, parameter.default, parameter.description)

    def _property(self, shape: mi.Type, default: Any, description: str) -> Schema:
        schema = self.write(shape)
        if description:
            schema.setdefault("description", description)
        return schema | _default(default)

    def _component(self, cls: Any, body: Callable[..., Schema], *args: Any) -> Schema:
        if cls not in self._references:
            name = self._free(cls.__name__)
            self.components[name] = {}  # taken, and known to types that contain themselves
            self._references[cls] = reference(name)
            self.components[name] = body(*args)
        return self._references[cls]

    def _free(self, name: str) -> str:
        return free_name(re.sub(r"\W", "_", name, flags=re.ASCII), self.components)

    def _custom(self, cls: Any) -> Schema:
        if not is_pydantic(cls):
            name = getattr(cls, "__name__", str(cls))
            instead = _INSTEAD.get(name, "use a dataclass, TypedDict, msgspec Struct or pydantic model")
            raise TypeError(f"a model cannot write a value of type {name}; {instead}")
        if cls not in self._references:
            schema = self._adopt(cls.model_json_schema())
            self._references[cls] = schema
            if "$ref" not in schema:
                self._references[cls] = self._component(cls, lambda: schema)
        return self._references[cls]

    def _adopt(self, schema: Schema) -> Schema:
        """Take over the components that a schema made elsewhere brings along, under names that are free here."""
        names = {}
        for name in schema.get("$defs", {}):
            names[name] = self._free(name)
            self.components[names[name]] = {}

        def refer(part: Schema) -> Schema:
            name = referred(part)
            return part if name is None else part | reference(names.get(name, name))

        schema = rewrite(schema, refer)
        for name, body in schema.pop("$defs", {}).items():
            self.components[names[name]] = body
        return schema

    def _dict(self, shape: mi.DictType) -> Schema:
        if not _is_text(shape.key_type):
            raise TypeError("the keys of a JSON object are text; use dict[str, ...], or a list of pairs")
        keys, values = self.write(shape.key_type), self.write(shape.value_type)
        names = {} if keys in ({}, {"type": "string"}) else {"propertyNames": keys}
        return {"type": "object", "additionalProperties": values} | names | _sizes("object", shape)

    def _class(self, shape: mi.StructType | mi.DataclassType | mi.TypedDictType | mi.NamedTupleType) -> Schema:
        if hasattr(shape.cls, "__pydantic_validator__"):
            raise TypeError(f"{shape.cls.__name__} is a pydantic dataclass; use a BaseModel or a plain dataclass")
        docs = parse(_own_doc(shape.cls))
        properties = {
            field.encode_name: self._property(field.type, field.default, docs.parameters.get(field.name, ""))
            for field in shape.fields
        }
        required = [field.encode_name for field in shape.fields if field.required]
        if isinstance(shape, mi.NamedTupleType) or (isinstance(shape, mi.StructType) and shape.array_like):
            return _described(_tuple(list(properties.values()), len(required)), docs.summary)
        schema = _object(properties, required)
        if isinstance(shape, mi.StructType):
            schema = _tagged(schema, shape)
        return _described(schema, docs.summary)


def is_pydantic(cls: Any) -> bool:
    """Whether this is a pydantic model, told without importing pydantic."""
    return hasattr(cls, "__pydantic_validator__") and hasattr(cls, "model_validate_json")


def _scalar(shape: mi.Type) -> Schema:
    known = _SCALARS.get(type(shape))
    if known is None:
        raise TypeError(f"{type(shape).__name__.removesuffix('Type')} has no form in JSON; use str")
    schema = dict(known)
    if getattr(shape, "tz", None) is False:
        del schema["format"]  # both formats demand a time zone
    limits = {key: getattr(shape, name, None) for name, key in _LIMITS.items()}
    return schema | {key: limit for key, limit in limits.items() if limit is not None} | _sizes("string", shape)


def _sizes(kind: str, shape: mi.Type) -> Schema:
    sizes = {end + _SIZES[kind]: getattr(shape, f"{end}_length", None) for end in ("min", "max")}
    return {key: size for key, size in sizes.items() if size is not None}


def _choice(values: Iterable[Any]) -> Schema:
    # Some services refuse an enum without its type.
    pairs = dict.fromkeys((_JSON_TYPES[type(value)], value) for value in values)  # True is not 1 here
    ordered = sorted(pairs, key=lambda pair: pair[0] == "null")
    kinds = list(dict.fromkeys(kind for kind, _ in ordered))
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": [value for _, value in ordered]}


def _enum(cls: type[Enum]) -> Schema:
    schema = _choice(member.value for member in cls.__members__.values())
    return _described(schema, parse(_own_doc(cls)).summary)


def _object(properties: dict[str, Schema], required: list[str]) -> Schema:
    return {"type": "object", "properties": properties, "required": required}


def _tagged(schema: Schema, shape: mi.StructType) -> Schema:
    if shape.tag_field is not None:
        schema["properties"] = {shape.tag_field: _choice([shape.tag]), **schema["properties"]}
        schema["required"] = [shape.tag_field, *schema["required"]]
    return schema | {"additionalProperties": False} if shape.forbid_unknown_fields else schema


def _tuple(items: list[Schema], required: int) -> Schema:
    same = items and all(item == items[0] for item in items)
    content = {"items": items[0]} if same else {"prefixItems": items}
    return {"type": "array", **content, "minItems": required, "maxItems": len(items)}


def _described(schema: Schema, description: str) -> Schema:
    return schema | {"description": description} if description else schema


def _own_doc(cls: Any) -> str | None:
    """A class's docstring, if someone wrote it for this class."""
    doc: str | None = vars(getattr(cls, "__origin__", cls)).get("__doc__")
    generated = doc is not None and (doc.startswith(f"{cls.__name__}(") or doc == "An enumeration.")
    return None if generated else doc


def _is_text(key: mi.Type) -> bool:
    match key:
        case mi.Metadata():
            return _is_text(key.type)
        case mi.LiteralType():
            return all(isinstance(value, str) for value in key.values)
        case mi.EnumType():
            return all(isinstance(member.value, str) for member in key.cls)
    return isinstance(key, mi.StrType | mi.AnyType)


def _default(value: Any) -> Schema:
    """The default, if it has a form in JSON."""
    if value is msgspec.NODEFAULT:
        return {}
    try:
        return {"default": msgspec.to_builtins(value, str_keys=True)}
    except (TypeError, RecursionError):
        return {}
