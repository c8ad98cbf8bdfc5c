"""Text with a tool's parameters in braces: what a person reads ("Looking up order {order_id}"), names of resources."""

from __future__ import annotations

import string
from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any

import msgspec

from hotloop.errors import ToolDefinitionError


class Template(msgspec.Struct, frozen=True):
    """`text` with the parameters that it names, `fields`."""

    text: str
    fields: tuple[str, ...]

    def fill(self, arguments: Mapping[str, Any]) -> str:
        """The text with (bound) arguments in it."""
        if not self.fields:
            return self.text.format()
        return self.text.format_map({name: _shown(arguments[name]) for name in self.fields})

    def stem(self) -> str:
        """The text before its first parameter."""
        stem = ""
        for literal, field, _, _ in string.Formatter().parse(self.text):
            stem += literal
            if field is not None:
                break
        return stem


def read_template(option: str, text: object, parameters: Collection[str]) -> Template:
    """The template that an option of a tool gives. Raises ToolDefinitionError for braces that name no parameter."""
    if not isinstance(text, str):
        raise ToolDefinitionError(f"{option} {text!r} is no text")
    try:
        parts = [part[1:] for part in string.Formatter().parse(text) if part[1] is not None]
    except ValueError as error:
        raise ToolDefinitionError(f"{option} {text!r}: {error}; write a brace that is text twice") from None
    for field, layout, conversion in parts:
        if field not in parameters:
            known = ", ".join(parameters)
            raise ToolDefinitionError(f"{option} {text!r}: {{{field}}} is no parameter; there is {known}")
        if layout or conversion:
            raise ToolDefinitionError(
                f"{option} {text!r}: write {{{field}}} without a format, which may not fit a value"
            )
    return Template(text, tuple(str(field) for field, _, _ in parts))


def _shown(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value
