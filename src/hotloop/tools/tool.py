"""A function that a model can call: its name, its schema, and one pass from argument text to keyword arguments."""

from __future__ import annotations

import inspect
import math
import re
import string
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, overload

import msgspec

from hotloop.errors import ArgumentsError, ToolDefinitionError, ToolError
from hotloop.tools.schema import arguments_schema, is_pydantic
from hotloop.tools.signature import Parameter, enclosing_scope, innermost, name_of, read_docs, read_parameters

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Tool(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A function with what an agent needs to offer it to a model; made by `tool`, called like the function itself.

    `definition` is the JSON that a request carries, `parameters` the schema inside it. `ttl` and `timeout` are
    seconds, `retry` is the number of attempts after the first; None leaves them to the agent. `decode` takes JSON text
    to a Struct of the arguments, `status_fields` are the parameters that `status` shows.
    """

    name: str
    description: str
    function: Callable[..., Any]
    is_async: bool
    parameters: dict[str, Any]
    definition: bytes
    read_only: bool
    idempotent: bool
    ttl: float | None
    timeout: float | None
    retry: int | None
    status: str | None
    status_fields: tuple[str, ...]
    decode: Callable[[str | bytes], msgspec.Struct]

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the function as if it were no tool."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"

    def bind(self, arguments: str) -> dict[str, Any]:
        """Decode and validate the model's arguments to the function's keyword arguments; "" counts as {}.

        Raises ArgumentsError, with what is wrong and the schema, in words that the model can act on.
        """
        try:
            return msgspec.structs.asdict(self.decode(arguments or "{}"))
        except Exception as error:  # a type's own checks (__post_init__, pydantic) may raise anything
            return self._bind_again(arguments, error)

    def _bind_again(self, arguments: str, error: Exception) -> dict[str, Any]:
        """JSON Schema takes 3.0 for the integer 3, and blank text is no argument at all: only then bind once more."""
        try:
            plain = msgspec.json.encode(_WHOLE_NUMBERS.decode(arguments if arguments.strip() else "{}"))
            return msgspec.structs.asdict(self.decode(plain))
        except Exception:
            raise ArgumentsError(self._complaint(error)) from error

    def _complaint(self, error: Exception) -> str:
        reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        schema = msgspec.json.encode(self.parameters).decode()
        return f"The arguments of {self.name} are wrong: {reason}. Call it again with arguments that fit {schema}"

    def status_text(self, arguments: Mapping[str, Any]) -> str:
        """What a person reads while the tool runs with these (bound) arguments; "" when there is no template."""
        if self.status is None:
            return ""
        return self.status.format_map({name: _shown(arguments[name]) for name in self.status_fields})


@overload
def tool(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    ttl: float | None = None,
    timeout: float | None = None,
    retry: int | None = None,
    status: str | None = None,
) -> Tool: ...


@overload
def tool(
    function: None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    ttl: float | None = None,
    timeout: float | None = None,
    retry: int | None = None,
    status: str | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    ttl: float | None = None,
    timeout: float | None = None,
    retry: int | None = None,
    status: str | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function, as `@tool`, `@tool(...)` or `tool(function, ...)`.

    Its name, parameters and description come from the function, its type hints and its docstring. `read_only` says
    that it changes nothing, so that it may start early, be shared and be cached for `ttl` seconds; `idempotent` that
    running it twice does no harm. `timeout` is in seconds, `retry` is the number of attempts after the first, and
    `status` is what a person reads meanwhile, with parameters in braces: "Looking up order {order_id}".

    Raises ToolDefinitionError for a function that cannot be described to a model, or options that contradict.
    """
    frame = sys._getframe(1)

    def make(function: Callable[..., Any]) -> Tool:
        try:
            _check_function(function)
            _check_policy(read_only, idempotent, ttl, timeout, retry)
            docs = read_docs(function)
            parameters = read_parameters(function, docs, enclosing_scope(function, frame))
            schema = arguments_schema(parameters)
            title = _checked_name(name or name_of(function))
            text = docs.summary if description is None else description
            return Tool(
                name=title,
                description=text,
                function=function,
                is_async=inspect.iscoroutinefunction(innermost(function)),
                parameters=schema,
                definition=_definition(title, text, schema),
                read_only=read_only,
                idempotent=idempotent,
                ttl=ttl,
                timeout=timeout,
                retry=retry,
                status=status,
                status_fields=_status_fields(status, parameters),
                decode=_decoder(parameters),
            )
        except ToolDefinitionError as error:
            raise ToolDefinitionError(f"tool {name or name_of(function)}: {error}") from error.__cause__

    return make if function is None else make(function)


def _check_function(function: Any) -> None:
    called = innermost(function)
    if isinstance(function, Tool):
        raise ToolDefinitionError("is a tool already")
    if inspect.isclass(function) or not callable(function):
        raise ToolDefinitionError(f"{function!r} is no function; give a function, a bound method or a callable object")
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise ToolDefinitionError("it yields, but a model reads one result; collect it and return it")


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ToolDefinitionError(
            f"{name!r} is no name that services accept; give name= up to 64 letters of a-z, A-Z, 0-9, _ and -"
        )
    return name


def _check_policy(
    read_only: bool, idempotent: bool, ttl: float | None, timeout: float | None, retry: int | None
) -> None:
    for option, seconds in (("ttl", ttl), ("timeout", timeout)):
        if seconds is not None and not _is_time(seconds):
            raise ToolDefinitionError(f"{option}={seconds!r}; give seconds as a number, more than 0")
    if retry is not None and (type(retry) is not int or retry < 0):
        raise ToolDefinitionError(f"retry={retry!r}; give the number of attempts after the first, 0 or more")
    if ttl is not None and not read_only:
        raise ToolDefinitionError("ttl keeps results, which is right only for a tool declared read_only=True")
    if retry and not (read_only or idempotent):
        raise ToolDefinitionError(
            "retry may run it twice; declare read_only=True or idempotent=True if that is harmless"
        )


def _is_time(seconds: object) -> bool:
    return isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < math.inf


def _definition(name: str, description: str, parameters: dict[str, Any]) -> bytes:
    function = {"name": name, "description": description, "parameters": parameters}
    if not description:
        del function["description"]
    return msgspec.json.encode({"type": "function", "function": function})


def _status_fields(status: str | None, parameters: list[Parameter]) -> tuple[str, ...]:
    try:
        parts = [part[1:] for part in string.Formatter().parse(status or "") if part[1] is not None]
    except ValueError as error:
        raise ToolDefinitionError(f"status {status!r}: {error}; write a brace that is text twice") from None
    names = [parameter.name for parameter in parameters]
    for field, layout, conversion in parts:
        if field not in names:
            raise ToolDefinitionError(f"status {status!r}: {{{field}}} is no parameter; there is {', '.join(names)}")
        if layout or conversion:
            raise ToolDefinitionError(
                f"status {status!r}: write {{{field}}} without a format, which may not fit a value"
            )
    return tuple(str(field) for field, _, _ in parts)


def _shown(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _decoder(parameters: list[Parameter]) -> Callable[[str | bytes], msgspec.Struct]:
    fields = [_struct_field(parameter) for parameter in parameters]
    arguments = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True, gc=False)
    return msgspec.json.Decoder(arguments, dec_hook=_decode_foreign).decode


def _struct_field(parameter: Parameter) -> tuple[str, Any] | tuple[str, Any, Any]:
    default = parameter.default
    if default is msgspec.NODEFAULT:
        return parameter.name, parameter.type
    # The very object the function has, as Python would pass it; msgspec would copy a list, or refuse it.
    return parameter.name, parameter.type, msgspec.field(default_factory=lambda: default)


def _decode_foreign(cls: type, value: Any) -> Any:
    """A pydantic model from decoded JSON; by way of text, because its rules for JSON differ from those for Python."""
    try:
        return cls.model_validate_json(msgspec.json.encode(value))  # type: ignore[attr-defined]
    except ValueError as error:
        raise ValueError(_pydantic_reason(error)) from None


def _pydantic_reason(error: Any) -> str:
    places = ((".".join(map(str, fault["loc"])), fault["msg"]) for fault in error.errors(include_url=False))
    return "; ".join(f"{place}: {message}" if place else message for place, message in places)


def _whole_number(text: str) -> int | msgspec.Raw:
    number = float(text)
    return int(number) if number.is_integer() else msgspec.Raw(text.encode())


_WHOLE_NUMBERS = msgspec.json.Decoder(float_hook=_whole_number)


def arguments_key(arguments: Mapping[str, Any]) -> bytes:
    """Bound arguments as bytes that are the same for the same arguments, in whatever order they came."""
    return msgspec.json.encode(arguments, enc_hook=_encode_for_key, order="deterministic")


def encode_result(value: Any) -> str:
    """What the model reads: text as it is, anything else as compact JSON.

    Raises ToolError for a value that has no JSON form.
    """
    if type(value) is str and value.isascii():
        return value
    try:
        if isinstance(value, str):
            value.encode()
            return value
        return msgspec.json.encode(value, enc_hook=_encode_foreign).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(
            f"The tool's result has no JSON form: {error}. Return text, numbers, lists, dicts, dataclasses or Structs"
        ) from None


def _encode_foreign(value: Any) -> Any:
    if is_pydantic(type(value)):
        return msgspec.Raw(value.model_dump_json(by_alias=True).encode())
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _encode_for_key(value: Any) -> Any:
    # Only a default can be of a type that JSON does not know; it is the same object in every call.
    return _encode_foreign(value) if is_pydantic(type(value)) else repr(value)
