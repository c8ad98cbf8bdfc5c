"""What the model is allowed to write: grammars for llama.cpp's constrained decoding (llguidance).

A decision is written as lines, one per call: the tool's name, a space, and its arguments as JSON that meets the
tool's schema. An answer is text, or JSON that meets the schema of its form. llguidance falls back to no constraint at
all where it cannot read a grammar, and says nothing; `check` makes a grammar whose first character tells whether it is
in force.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from hotloop.models.formats import FORMATS
from hotloop.models.local.request import Function

Schema = dict[str, Any]

MARK = "~"  # what no model would begin with by itself

_HEADER = "%llguidance {}\n"
_COMPACT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ", "lenient": False}
_MOST_CALLS = 8
_MOST_ITEMS = 16
_MOST_KEYS = 12
_LONGEST_FREE = 64
_LONGEST = 256
_INTEGER = 10**18
_NUMBER = 10**12
_SMALLEST_STEP = 0.000001
_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_SINGLES = ("items", "additionalProperties")
_OTHER_KEYS = frozenset(["patternProperties", "propertyNames", "maxProperties"])
_REFUSED: Schema = {"not": {}}  # by llguidance; it takes a least number of keys, but does not keep to it
_JOINED = frozenset(["allOf", "anyOf", "oneOf", "$ref"])  # keys whose schemas are about the same value
_NOTES = frozenset(["title", "description", "default", "examples", "$defs", "definitions"])
_PLACE = "#/$defs/said-"
_ANY, _SCALAR = "any", "scalar"


def calls(functions: Sequence[Function], said: Sequence[str] = ()) -> str:
    """Exactly these calls, each once, in this order; free strings are `said` ones, if there are any."""
    lines = [_line(place, function) for place, function in enumerate(functions)]
    return _grammar(_joined(lines), functions, said)


def choice(functions: Sequence[Function], ends: Sequence[int], form: Function | None = None) -> str:
    """One call or more, or an answer, of the form if there is one; `ends` are the tokens that end the model's turn."""
    any_call = " | ".join(_line(place, function) for place, function in enumerate(functions))
    rules = f'calls: call ("\\n" call){{0,{_MOST_CALLS - 1}}}\ncall: {any_call}\n'
    if form is not None:
        return _grammar(f"calls | a{len(functions)}", [*functions, form], (), rules)
    return _grammar("calls | answer", functions, (), rules + _answer_rule(functions, ends))


def formed(form: Function, said: Sequence[str] = ()) -> str:
    """An answer of this form; free strings as in `calls`."""
    return _grammar("a0", [form], said)


def answer(functions: Sequence[Function], ends: Sequence[int]) -> str:
    """A text that is no call of one of the functions; `ends` as above."""
    return _HEADER + "start: answer\n" + _answer_rule(functions, ends)


def check(function: Function) -> str:
    """A grammar that lets the model write `MARK` first, if llguidance can hold the function's schema."""
    return _grammar(f'"{MARK}" a0', [function], ())


def _grammar(start: str, functions: Sequence[Function], said: Sequence[str], rules: str = "") -> str:
    arguments = "".join(
        f"a{place}: %json {_json_rule(function.parameters or {'type': 'object'}, said)}\n"
        for place, function in enumerate(functions)
    )
    return f"{_HEADER}start: {start}\n{rules}{arguments}"


def _line(place: int, function: Function) -> str:
    return f"{json.dumps(function.name + ' ')} a{place}"


def _joined(lines: Sequence[str]) -> str:
    return ' "\\n" '.join(lines)


def _answer_rule(functions: Sequence[Function], ends: Sequence[int]) -> str:
    names = "|".join(re.escape(function.name).replace("/", r"\/") for function in functions)
    barred = f" & ~/(?s:({names}) .*)/" if names else ""
    end = f" <[{','.join(map(str, ends))}]>" if ends else ""  # not allowed inside a text unless it is named
    return f"answer: TEXT{end}\nTEXT: /(?s:.+)/{barred}\n"


def _json_rule(schema: Schema, said: Sequence[str]) -> str:
    made = {"x-guidance": _COMPACT} | _bounded(schema, said)
    if said and _PLACE in json.dumps(made):
        made["$defs"] = made.get("$defs", {}) | _open_values(said)
    return json.dumps(made, ensure_ascii=False)


def _open_values(said: Sequence[str]) -> Schema:
    """What stands for values that a schema leaves open: of limited depth and length, out of what was said."""
    scalar = [_bounded({"type": kind}, said) for kind in ("string", "number", "boolean", "null")]
    array, mapping = ({"type": kind} for kind in ("array", "object"))
    anything = [*scalar, _bounded(array, said), _bounded(mapping, said)]
    return {f"said-{_SCALAR}": {"anyOf": scalar}, f"said-{_ANY}": {"anyOf": anything}}


def _defined(name: str) -> Schema:
    return {"$ref": _PLACE + name}


def _bounded(schema: Any, said: Sequence[str], whole: bool = True) -> Any:
    """`schema` with an end to everything that could go on for ever.

    `whole` tells that no other schema is about the same value. Only then is it known which keys there may be, and
    that a string may be anything.
    """
    if not isinstance(schema, dict):
        return schema
    made = _with_bounded_parts(schema, said, whole)
    if made.pop("minProperties", 0) > len(made.get("required", ())):
        return _REFUSED
    if "enum" in made or "const" in made:
        return made
    kinds = made["type"] if isinstance(made.get("type"), list) else [made.get("type")]
    whole = whole and not _JOINED & made.keys()
    if whole and said and made.keys() <= _NOTES:
        return made | _defined(_ANY)
    if whole and said and "string" in kinds and not {"pattern", "format"} & made.keys():
        return _said_string(made, kinds, said)
    if whole and "object" in kinds:
        made |= _keys(made, said)
    if whole and said and "array" in kinds and not {"items", "prefixItems"} & made.keys():
        made["items"] = _defined(_SCALAR)
    return _limits(made, kinds, said) | made


def _with_bounded_parts(schema: Schema, said: Sequence[str], whole: bool) -> Schema:
    whole_options = whole and len(schema.keys() - _NOTES) == 1
    made: Schema = {}
    for key, value in schema.items():
        if key == "format" and value not in FORMATS:  # which says nothing, unless somebody knows it
            continue
        if key in _MAPS:
            value = {name: _bounded(each, said) for name, each in value.items()}
        elif key in ("allOf", "anyOf", "oneOf"):
            value = [_bounded(each, said, whole_options and key != "allOf") for each in value]
        elif key == "prefixItems":
            value = [_bounded(each, said) for each in value]
        elif key in _SINGLES:
            value = _bounded(value, said)
        made[key] = value
    return made


def _keys(schema: Schema, said: Sequence[str]) -> Schema:
    """The keys of an object: those that are named, and where any may be, words that were said."""
    if "properties" in schema and ("additionalProperties" not in schema or not said):
        return {"additionalProperties": schema.get("additionalProperties", False)}
    others = schema.get("additionalProperties", True)
    if not said or others is False or _OTHER_KEYS & schema.keys():
        return {}
    words = [each for each in said if each and " " not in each][:_MOST_KEYS]
    value = _defined(_SCALAR) if others is True or not others else others
    named = dict.fromkeys([*schema.get("required", ()), *words], value) | schema.get("properties", {})
    return {"properties": named, "additionalProperties": False}


def _limits(schema: Schema, kinds: Sequence[str | None], said: Sequence[str]) -> Schema:
    """The limits of one value, where it has a kind that needs them; a part of a schema may leave its kind unsaid."""
    limits: Schema = {}
    if {"pattern", "format"} & schema.keys() or (said and "string" in kinds):
        limits["maxLength"] = max(_LONGEST, schema.get("minLength", 0))
    if "array" in kinds or "items" in schema:
        limits["maxItems"] = max(_MOST_ITEMS, schema.get("minItems", 0))
    if "number" in kinds:
        limits["multipleOf"] = _SMALLEST_STEP
    if "integer" in kinds or "number" in kinds:
        most = _NUMBER if "number" in kinds else _INTEGER
        limits |= {} if "exclusiveMinimum" in schema else {"minimum": -most}
        limits |= {} if "exclusiveMaximum" in schema else {"maximum": most}
    return limits


def _said_string(schema: Schema, kinds: Sequence[str | None], said: Sequence[str]) -> Schema:
    """A string that nothing narrows down becomes one of the `said` strings that are neither too short nor long."""
    shortest = schema.get("minLength", 0)
    longest = schema.get("maxLength", max(_LONGEST_FREE, shortest))
    fitting: Schema = {"enum": [each for each in said if shortest <= len(each) <= longest]}
    words = fitting if fitting["enum"] else schema | {"type": "string", "maxLength": longest}
    others = [kind for kind in kinds if kind != "string"]
    return {"anyOf": [words, _bounded(schema | {"type": others}, ())]} if others else words
