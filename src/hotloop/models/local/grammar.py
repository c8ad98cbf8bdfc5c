"""What the model is allowed to write: grammars for llama.cpp's constrained decoding (llguidance).

A decision is written as lines, one per call: the tool's name, a space, and its arguments as JSON that meets the
tool's schema. llguidance falls back to no constraint at all where it cannot read a grammar, and says nothing; `check`
makes a grammar whose first character tells whether it is in force.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from hotloop.models.local.request import Function

Schema = dict[str, Any]

MARK = "~"  # what no model would begin with by itself

_HEADER = "%llguidance {}\n"
_COMPACT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ", "lenient": True}
_MOST_CALLS = 8
_MOST_ITEMS = 16
_LONGEST_FREE = 64
_LONGEST_PATTERN = 256
_INTEGER = 10**18
_NUMBER = 10**12
_SMALLEST_STEP = 0.000001
_LISTS = ("anyOf", "oneOf", "prefixItems")
_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_SINGLES = ("items", "additionalProperties")


def calls(functions: Sequence[Function], said: Sequence[str] = ()) -> str:
    """Exactly these calls, each once, in this order; free strings are `said` ones, if there are any."""
    lines = [_line(place, function) for place, function in enumerate(functions)]
    return _grammar(_joined(lines), functions, said)


def choice(functions: Sequence[Function], ends: Sequence[int]) -> str:
    """One call or more, or an answer in text; `ends` are the tokens that end the model's turn."""
    any_call = " | ".join(_line(place, function) for place, function in enumerate(functions))
    rules = f'calls: call ("\\n" call){{0,{_MOST_CALLS - 1}}}\ncall: {any_call}\n'
    return _grammar("calls | answer", functions, (), rules + _answer_rule(functions, ends))


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
    return json.dumps({"x-guidance": _COMPACT} | _bounded(schema, said), ensure_ascii=False)


def _bounded(schema: Any, said: Sequence[str]) -> Any:
    """`schema` with an end to everything that could go on for ever."""
    if not isinstance(schema, dict):
        return schema
    made: Schema = dict(schema)
    for key in _LISTS:
        if key in made:
            made[key] = [_bounded(each, said) for each in made[key]]
    for key in _MAPS:
        if key in made:
            made[key] = {name: _bounded(each, said) for name, each in made[key].items()}
    for key in _SINGLES:
        if key in made:
            made[key] = _bounded(made[key], said)
    if "enum" in made or "const" in made:
        return made
    kind = made.get("type")
    for each in kind if isinstance(kind, list) else [kind]:
        if each in _BOUNDS:
            made |= _BOUNDS[each](made)
    return _said_string(made, said) if kind == "string" and said else made


def _bounded_integer(schema: Schema) -> Schema:
    return {
        **({} if {"minimum", "exclusiveMinimum"} & schema.keys() else {"minimum": -_INTEGER}),
        **({} if {"maximum", "exclusiveMaximum"} & schema.keys() else {"maximum": _INTEGER}),
    }


def _bounded_number(schema: Schema) -> Schema:
    return {
        "multipleOf": schema.get("multipleOf", _SMALLEST_STEP),
        **({} if {"minimum", "exclusiveMinimum"} & schema.keys() else {"minimum": -_NUMBER}),
        **({} if {"maximum", "exclusiveMaximum"} & schema.keys() else {"maximum": _NUMBER}),
    }


def _bounded_array(schema: Schema) -> Schema:
    return {"maxItems": schema.get("maxItems", max(_MOST_ITEMS, schema.get("minItems", 0)))}


def _bounded_object(schema: Schema) -> Schema:
    return {"additionalProperties": False} if "properties" in schema and "additionalProperties" not in schema else {}


def _bounded_string(schema: Schema) -> Schema:
    return {"maxLength": schema.get("maxLength", _LONGEST_PATTERN)} if "pattern" in schema else {}


_BOUNDS = {
    "string": _bounded_string,
    "integer": _bounded_integer,
    "number": _bounded_number,
    "array": _bounded_array,
    "object": _bounded_object,
}


def _said_string(schema: Schema, said: Sequence[str]) -> Schema:
    """A string that nothing else narrows down becomes one of the `said` strings that are neither too short nor long."""
    if "pattern" in schema or "format" in schema:
        return schema
    shortest, longest = schema.get("minLength", 0), schema.get("maxLength", _LONGEST_FREE)
    fitting = [each for each in said if shortest <= len(each) <= longest]
    return {"enum": fitting} if fitting else schema | {"maxLength": longest}
