"""A function that a model can call: its name, its schema, and one pass from argument text to keyword arguments."""

from __future__ import annotations

import functools
import inspect
import math
import re
import string
import sys
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeVar, overload

import msgspec

from ..errors import ArgumentsError, ToolDefinitionError, ToolError
from .schema import arguments_schema

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

F = TypeVar("F", bound=Callable[..., Any])


class Tool:
    """A function with what an agent needs to offer it to a model; made by `tool`, called like the function itself.

    `definition` is the JSON that a request carries, `parameters` the schema inside it. `ttl` and `timeout` are
    seconds and `retry` is the number of attempts after the first; None leaves them to the agent.
    """

    __slots__ = (
        "_arguments",
        "_decode",
        "_status_fields",
        "definition",
        "description",
        "function",
        "idempotent",
        "is_async",
        "name",
        "parameters",
        "read_only",
        "retry",
        "status",
        "timeout",
        "ttl",
    )

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str,
        description: str,
        arguments: type[msgspec.Struct],
        read_only: bool,
        idempotent: bool,
        ttl: float | None,
        timeout: float | None,
        retry: int | None,
        status: str | None,
    ) -> None:
        self.function = function
        self.name = name
        self.description = description
        self.is_async = inspect.iscoroutinefunction(function)
        self.parameters = arguments_schema(arguments)
        self.definition = msgspec.json.encode(
            {
                "type": "function",
                "function": {"name": name, "description": description, "parameters": self.parameters},
            }
        )
        self.read_only = read_only
        self.idempotent = idempotent
        self.ttl = ttl
        self.timeout = timeout
        self.retry = retry
        self.status = status
        self._status_fields: tuple[str, ...] = ()
        self._decode = msgspec.json.Decoder(arguments).decode

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as if it were no tool."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"

    def bind(self, arguments: str) -> dict[str, Any]:
        """Decode and validate the model's arguments to the function's keyword arguments; "" counts as {}.

        Raises ArgumentsError, with what is wrong and the schema, in words that the model can act on.
        """
        try:
            return msgspec.structs.asdict(self._decode(arguments or "{}"))
        except msgspec.DecodeError as error:
            schema = msgspec.json.encode(self.parameters).decode()
            raise ArgumentsError(
                f"The arguments of {self.name} are wrong: {error}. Call it again with arguments that fit {schema}"
            ) from None

    def status_text(self, arguments: Mapping[str, Any]) -> str:
        """What a person reads while the tool runs with these (bound) arguments; "" when there is no template."""
        return "" if self.status is None else self.status.format_map(arguments)


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
) -> Any:
    """Make a tool of a function."""

    def make(function: Callable[..., Any]) -> Tool:
        hints = typing.get_type_hints(function, include_extras=True)
        fields: list[Any] = []
        for parameter in inspect.signature(function).parameters.values():
            field: tuple[Any, ...] = (parameter.name, hints[parameter.name])
            if parameter.default is not parameter.empty:
                default = parameter.default
                field += (msgspec.field(default_factory=lambda default=default: default),)
            fields.append(field)
        arguments = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True, gc=False)
        return Tool(
            function,
            name=name or function.__name__,
            description=description or inspect.getdoc(function) or "",
            arguments=arguments,
            read_only=read_only,
            idempotent=idempotent,
            ttl=ttl,
            timeout=timeout,
            retry=retry,
            status=status,
        )

    return make if function is None else make(function)


def encode_result(value: Any) -> str:
    """What the model reads: text as it is, anything else as compact JSON.

    Raises ToolError for a value that has no JSON form.
    """
    if type(value) is str:
        return value
    try:
        return msgspec.json.encode(value).decode()
    except TypeError as error:
        raise ToolError(f"The tool's result has no JSON form: {error}") from None
