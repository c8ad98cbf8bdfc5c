"""A function that a model can call, with the rules it runs by, and one pass from argument text to keyword arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from hotloop.errors import ArgumentsError, ToolError
from hotloop.tools.cutting.keep import Keep
from hotloop.tools.defining.schema import is_pydantic
from hotloop.tools.defining.template import Template

if TYPE_CHECKING:
    from hotloop.tools.sandbox.wire import SandboxLimits

Scope = Literal["run", "session", "user", "global"]
Approval = Literal["never", "always"] | Callable[[dict[str, Any]], bool]
TELL_MODEL = msgspec.UNSET
"""The default of `on_timeout`: the model is told that the tool did not finish."""


class Allowed(NamedTuple):
    """The test that a value of a parameter must pass, and what the model is told of it."""

    test: Callable[[Any], bool]
    told: str


class Tool(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A function with what an agent needs to offer it to a model; made by `tool`, called like the function itself.

    `definition` is the JSON that a request carries, `parameters` the schema inside it, `decode` takes JSON text to
    keyword arguments. Everything from `read_only` on are the rules it runs by, as in `ToolOptions`.
    """

    name: str
    description: str
    function: Callable[..., Any]
    is_async: bool
    parameters: dict[str, Any]
    definition: bytes
    decode: Callable[[str | bytes], dict[str, Any]]
    read_only: bool = False
    idempotent: bool = False
    optional: bool = False
    ttl: float | None = None
    scope: Scope | None = None
    timeout: float | None = None
    retry: int | None = None
    on_timeout: Any = TELL_MODEL
    keep: Keep | None = None
    max_result: int | None = None
    summarize: bool = False
    status: Template | None = None
    after: tuple[str, ...] = ()
    sequential: bool = False
    reads: tuple[Template, ...] = ()
    writes: tuple[Template, ...] = ()
    invalidates: tuple[Template, ...] = ()
    requires: frozenset[str] = frozenset()
    allow: Mapping[str, Allowed] = {}
    approval: Approval = "never"
    secrets: frozenset[str] = frozenset()
    sandbox: SandboxLimits | None = None

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
            return self.decode(arguments or "{}")
        except Exception as error:  # a type's own checks (__post_init__, pydantic) may raise anything
            return self._bind_again(arguments, error)

    def _bind_again(self, arguments: str, error: Exception) -> dict[str, Any]:
        """JSON Schema takes 3.0 for the integer 3, and blank text is no argument at all: only then bind once more."""
        try:
            plain = msgspec.json.encode(_WHOLE_NUMBERS.decode(arguments if arguments.strip() else "{}"))
            return self.decode(plain)
        except Exception:
            raise ArgumentsError(self._complaint(error)) from error

    def _complaint(self, error: Exception) -> str:
        reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        schema = msgspec.json.encode(self.parameters).decode()
        return f"The arguments of {self.name} are wrong: {reason}. Call it again with arguments that fit {schema}"

    def status_text(self, arguments: Mapping[str, Any]) -> str:
        """What a person reads while the tool runs with these (bound) arguments; "" when there is no template."""
        return "" if self.status is None else self.status.fill(arguments)


def _whole_number(text: str) -> int | msgspec.Raw:
    number = float(text)
    return int(number) if number.is_integer() else msgspec.Raw(text.encode())


_WHOLE_NUMBERS = msgspec.json.Decoder(float_hook=_whole_number)


def arguments_key(arguments: Mapping[str, Any]) -> bytes:
    """Bound arguments as bytes that are the same for the same arguments, in whatever order they came."""
    try:
        return _KEYS.encode(arguments)
    except TypeError:  # a set of things that have no order: equal ones may then get different keys
        return msgspec.json.encode(arguments, enc_hook=_encode_for_key)


def canonical(arguments: str) -> str:
    """The model's arguments as text that is the same for the same JSON, in this process and in any other."""
    return msgspec.json.encode(msgspec.json.decode(arguments.strip() or "{}"), order="deterministic").decode()


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


_KEYS = msgspec.json.Encoder(enc_hook=_encode_for_key, order="deterministic")
