"""How a function becomes a tool: its schema from type hints, its rules from options, everything checked once."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from typing import Any, Unpack, overload

import msgspec

from hotloop.errors import ToolDefinitionError
from hotloop.tools.defining.rules import ToolOptions, read_rules
from hotloop.tools.defining.schema import arguments_schema
from hotloop.tools.defining.signature import Parameter, enclosing_scope, innermost, name_of, read_docs, read_parameters
from hotloop.tools.defining.tool import Tool

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@overload
def tool(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[ToolOptions],
) -> Tool: ...


@overload
def tool(
    function: None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[ToolOptions],
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[ToolOptions],
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function, as `@tool`, `@tool(...)` or `tool(function, ...)`.

    Its name, parameters and description come from the function, its type hints and its docstring. The options are the
    rules it runs by: see `hotloop.tools.defining.rules.ToolOptions` and docs/tools.md.

    Raises ToolDefinitionError for a function that cannot be described to a model, or options that contradict.
    """
    frame = sys._getframe(1)

    def make(function: Callable[..., Any]) -> Tool:
        try:
            _check_function(function)
            docs = read_docs(function)
            parameters = read_parameters(function, docs, enclosing_scope(function, frame))
            return make_tool(
                name or name_of(function),
                docs.summary if description is None else description,
                function,
                arguments_schema(parameters),
                _decoder(parameters),
                **options,
            )
        except ToolDefinitionError as error:
            raise ToolDefinitionError(f"tool {name or name_of(function)}: {error}") from error.__cause__

    return make if function is None else make(function)


def make_tool(
    name: str,
    description: str,
    function: Callable[..., Any],
    schema: dict[str, Any],
    decode: Callable[[str | bytes], dict[str, Any]],
    **options: Unpack[ToolOptions],
) -> Tool:
    """A tool whose schema is known: `decode` takes JSON text to the function's keyword arguments, or raises.

    Raises ToolDefinitionError for a name that services refuse, or options that contradict.
    """
    if not _NAME.fullmatch(name):
        raise ToolDefinitionError(
            f"{name!r} is no name that services accept; give name= up to 64 letters of a-z, A-Z, 0-9, _ and -"
        )
    rules = read_rules(options, name, schema)
    if rules.get("sandbox"):
        from hotloop.tools.sandbox import check_sandboxed

        check_sandboxed(function)
    return Tool(
        name=name,
        description=description,
        function=function,
        is_async=inspect.iscoroutinefunction(innermost(function)),
        parameters=schema,
        definition=_definition(name, description, schema),
        decode=decode,
        **rules,
    )


def _check_function(function: Any) -> None:
    called = innermost(function)
    if isinstance(function, Tool):
        raise ToolDefinitionError("is a tool already")
    if inspect.isclass(function) or not callable(function):
        raise ToolDefinitionError(f"{function!r} is no function; give a function, a bound method or a callable object")
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise ToolDefinitionError("it yields, but a model reads one result; collect it and return it")


def _definition(name: str, description: str, parameters: dict[str, Any]) -> bytes:
    function = {"name": name, "description": description, "parameters": parameters}
    if not description:
        del function["description"]
    return msgspec.json.encode({"type": "function", "function": function})


def _decoder(parameters: list[Parameter]) -> Callable[[str | bytes], dict[str, Any]]:
    fields = [_struct_field(parameter) for parameter in parameters]
    arguments = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True, gc=False)
    decode = msgspec.json.Decoder(arguments, dec_hook=decode_foreign).decode
    asdict = msgspec.structs.asdict
    return lambda text: asdict(decode(text))


def _struct_field(parameter: Parameter) -> tuple[str, Any] | tuple[str, Any, Any]:
    default = parameter.default
    if default is msgspec.NODEFAULT:
        return parameter.name, parameter.type
    # The very object the function has, as Python would pass it; msgspec would copy a list, or refuse it.
    return parameter.name, parameter.type, msgspec.field(default_factory=lambda: default)


def decode_foreign(cls: type, value: Any) -> Any:
    """A pydantic model from decoded JSON; by way of text, because its rules for JSON differ from those for Python."""
    try:
        return cls.model_validate_json(msgspec.json.encode(value))  # type: ignore[attr-defined]
    except ValueError as error:
        raise ValueError(_pydantic_reason(error)) from None


def _pydantic_reason(error: Any) -> str:
    places = ((".".join(map(str, fault["loc"])), fault["msg"]) for fault in error.errors(include_url=False))
    return "; ".join(f"{place}: {message}" if place else message for place, message in places)
