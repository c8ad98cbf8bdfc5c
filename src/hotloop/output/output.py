"""The type that an answer must have, compiled once: its schema, its decoder, and the tool that takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from hotloop.errors import ConfigError, ToolDefinitionError
from hotloop.models.dialects import Dialect
from hotloop.models.request import AnswerForm
from hotloop.output.strict import strict
from hotloop.tools.defining.define import decode_foreign, make_tool
from hotloop.tools.defining.minimal import Schema, referred, rewrite
from hotloop.tools.defining.schema import arguments_schema
from hotloop.tools.defining.signature import Parameter
from hotloop.tools.defining.tool import Tool

FINAL_ANSWER = "final_answer"

_DESCRIPTION = "Give the user the final answer. Call it once you have all that you need, instead of answering in text."
_TOLD = "Give your final answer as JSON and nothing else, an object that fits this JSON Schema:\n{}"
_CHOICE = msgspec.json.encode({"type": "function", "function": {"name": FINAL_ANSWER}})
_VALUE = "value"


class Output(msgspec.Struct, frozen=True, eq=False):
    """What an answer must be.

    `schema` is that of a JSON object: an answer of any other type is `wrapped`, as the object's "value". `tool` is the
    built-in tool whose arguments are the answer; its `bind` reads and validates them.
    """

    schema: Schema
    wrapped: bool
    tool: Tool

    @classmethod
    def of(cls, kind: Any) -> Output | None:
        """The output of this type; None for `str` and None: the answer is the model's text.

        A msgspec Struct, a dataclass, a TypedDict, a pydantic model, or what msgspec knows as a type: scalars, lists,
        unions, Literals. Raises ConfigError for anything else.
        """
        if kind is None or kind is str:
            return None
        schema, wrapped = _schema(kind)
        decode = _decoder(kind, wrapped)
        tool = make_tool(FINAL_ANSWER, _DESCRIPTION, decode, schema, lambda text: {_VALUE: decode(text)})
        return cls(schema, wrapped, tool)

    def form(self, dialect: Dialect, stream: bool, tools: bool) -> AnswerForm:
        """How a service of this dialect is asked for it, in a stream and beside other tools or not.

        Where it can hold the model to a schema, by that; else by the tool, if it knows tools; else the model has only
        the instructions, and the form is empty.
        """
        if dialect.schema and (dialect.schema_streams or not stream) and (dialect.schema_with_tools or not tools):
            return AnswerForm(response_format=self._response_format(dialect.schema_strict))
        if tools or dialect.forbids_tools:
            return AnswerForm(tool=self.tool.definition, choice=_CHOICE)
        return AnswerForm()

    def instructions(self, own: str, services: Iterable[tuple[Dialect, bool]], tools: bool) -> str:
        """The agent's own instructions, with the schema at their end if one of these services, each a dialect and
        whether it streams, shows its model nothing of it.
        """
        if not any(self._is_untold(dialect, stream, tools) for dialect, stream in services):
            return own
        return f"{own}\n\n{_TOLD.format(msgspec.json.encode(self.schema).decode())}".lstrip()

    def _is_untold(self, dialect: Dialect, stream: bool, tools: bool) -> bool:
        return not self.form(dialect, stream, tools).tool and not dialect.schema_shown

    def _response_format(self, to_the_letter: bool) -> bytes:
        held = strict(self.schema) if to_the_letter else None
        named: dict[str, Any] = {"name": "answer", "schema": held or self.schema}
        if held is not None:
            named["strict"] = True
        return msgspec.json.encode({"type": "json_schema", "json_schema": named})


def _schema(kind: Any) -> tuple[Schema, bool]:
    """The schema of an object that is, or has as its "value", what this type says; and whether it has it as that."""
    try:
        whole = arguments_schema([Parameter(_VALUE, kind, msgspec.NODEFAULT, "")])
    except (ToolDefinitionError, AttributeError, RuntimeError) as error:  # the last two are pydantic's
        reason = str(error).removeprefix(f"parameter {_VALUE!r}: ").partition("\n")[0].rstrip(".")
        raise ConfigError(f"output is {kind!r}, which no answer can be: {reason}.") from error
    whole = rewrite(whole, _closed)
    own, components = whole["properties"][_VALUE], whole.get("$defs", {})
    if (name := referred(own)) is not None:
        own = components[name] | {key: value for key, value in own.items() if key != "$ref"}
    if own.get("type") != "object":
        return whole, True
    return own | ({"$defs": components} if components else {}), False


def _closed(part: Schema) -> Schema:
    """Some services let a model add keys unless they are forbidden."""
    return {**part, "additionalProperties": part.get("additionalProperties", False)} if "properties" in part else part


def _decoder(kind: Any, wrapped: bool) -> Callable[[str | bytes], Any]:
    """From JSON text to the value. A wrapped one may also come bare, which can be no mistake."""
    bare = msgspec.json.Decoder(kind, dec_hook=decode_foreign).decode
    if not wrapped:
        return bare
    answer: Any = msgspec.defstruct("Answer", [(_VALUE, kind)], forbid_unknown_fields=True)
    inside = msgspec.json.Decoder(answer, dec_hook=decode_foreign).decode

    def decode(text: str | bytes) -> Any:
        try:
            return inside(text).value
        except msgspec.ValidationError:
            try:
                return bare(text)
            except msgspec.ValidationError:
                pass
            raise

    return decode
