"""What a function takes: its parameters with their types, read once, when it becomes a tool."""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from hotloop.errors import ToolDefinitionError
from hotloop.tools.defining.docstring import Docs, parse

_Kind = inspect.Parameter
_REFUSED = {
    _Kind.VAR_POSITIONAL: "*{} cannot be described to a model; take a list",
    _Kind.VAR_KEYWORD: "**{} cannot be described to a model; name the parameters, or take one dict",
    _Kind.POSITIONAL_ONLY: "parameter {!r} is positional-only, but tools are called by keyword; remove the '/'",
}


class Parameter(msgspec.Struct, frozen=True):
    """One parameter of a tool; `default` is NODEFAULT when the model must give it."""

    name: str
    type: Any
    default: Any
    description: str

    @property
    def required(self) -> bool:
        return self.default is msgspec.NODEFAULT


def innermost(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that is called in the end, below any `functools.partial` and inside a callable object."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if inspect.isroutine(function) else type(function).__call__


def name_of(function: Callable[..., Any]) -> str:
    """What the function is called; for a callable object, the name of its class."""
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__name__", type(function).__name__)


def read_docs(function: Callable[..., Any]) -> Docs:
    """The docstring of the function that is called in the end."""
    return parse(innermost(function).__doc__)


def read_parameters(function: Callable[..., Any], docs: Docs, scope: Mapping[str, Any]) -> list[Parameter]:
    """The parameters that a model may fill; what a `functools.partial` has set is not among them.

    `scope` holds local names that annotations written as text may use. Raises ToolDefinitionError for a parameter
    without a type, or of a kind that cannot be filled by name.
    """
    hints = _hints(innermost(function), scope)
    fixed = _fixed(function)
    return [
        _parameter(parameter, hints, docs)
        for parameter in _signature(function).parameters.values()
        if parameter.name not in fixed
    ]


def enclosing_scope(function: Callable[..., Any], frame: types.FrameType | None) -> dict[str, Any]:
    """Local names that the function's annotations can see, taken from the frames around its definition.

    Python keeps no link from a nested function to the names of its surroundings that only annotations use.
    """
    place = getattr(innermost(function), "__qualname__", "")
    scope: dict[str, Any] = {}
    while frame is not None and "<locals>" in place:
        if place.startswith(f"{frame.f_code.co_qualname}."):
            scope = frame.f_locals | scope
        frame = frame.f_back
    return scope


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        raise ToolDefinitionError("Python cannot tell what it takes; wrap it in a function of yours") from None


def _hints(function: Callable[..., Any], scope: Mapping[str, Any]) -> dict[str, Any]:
    """The types of the parameters; that of the result may stay unknown, as an import for type checkers only."""
    written = {name: written for name, written in _annotations(function).items() if name != "return"}
    names = getattr(inspect.unwrap(function), "__globals__", {})
    holder = types.SimpleNamespace(__annotations__=written, __globals__=names)
    try:
        return typing.get_type_hints(holder, localns=dict(scope), include_extras=True)
    except NameError as error:
        raise ToolDefinitionError(
            f"{error}, but its annotations use it; import or define it where the function can see it at run time"
        ) from None


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(function, format=annotationlib.Format.FORWARDREF)
    return inspect.get_annotations(function)


def _fixed(function: Callable[..., Any]) -> set[str]:
    fixed: set[str] = set()
    while isinstance(function, functools.partial):
        fixed.update(function.keywords)
        function = function.func
    return fixed


def _parameter(parameter: inspect.Parameter, hints: Mapping[str, Any], docs: Docs) -> Parameter:
    name = parameter.name
    if parameter.kind in _REFUSED:
        raise ToolDefinitionError(_REFUSED[parameter.kind].format(name))
    if name.startswith("__"):
        raise ToolDefinitionError(f"parameter {name!r} starts with two underscores, which is Python's own; rename it")
    if name not in hints:
        raise ToolDefinitionError(f"parameter {name!r} has no type; annotate it{_for_method(name)}")
    type_, default = hints[name], parameter.default
    if default is parameter.empty:
        default = msgspec.NODEFAULT
    if default is None:
        type_ = typing.Optional[type_]  # noqa: UP045 - `|` does not take every form
    return Parameter(name, type_, default, docs.parameters.get(name, ""))


def _for_method(name: str) -> str:
    return ", or make the tool from the bound method: tool(instance.method)" if name in ("self", "cls") else ""
