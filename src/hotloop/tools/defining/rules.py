"""The rules that a tool runs by: what its options may be, and which of them contradict."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from hotloop.errors import ToolDefinitionError, ToolError
from hotloop.tools.cutting.keep import read_keep
from hotloop.tools.defining.signature import innermost
from hotloop.tools.defining.template import Template, read_template
from hotloop.tools.defining.tool import TELL_MODEL, Allowed, Approval, Scope, Tool, encode_result
from hotloop.words import did_you_mean

if TYPE_CHECKING:
    from hotloop.tools.sandbox import SandboxLimits

_SCOPES = ("run", "session", "user", "global")


class ToolOptions(TypedDict, total=False):
    """Options of `tool`.

    read_only
        It changes nothing: it may start before the reply is complete, be shared, be cached and run again.
    idempotent
        Running it twice does no more than running it once.
    optional
        The answer can do without it: a run whose budget degrades leaves it out, or gives it up, when time is short.
    ttl, scope
        Seconds for which a result is kept (read-only tools), and for whom: "run", "session", "user" or "global".
        Identical calls at the same time share one execution within the scope. Without a scope the runs of the agent
        share what is kept, and only calls of one reply an execution.
    timeout, retry
        Seconds for one attempt; attempts after the first.
    on_timeout
        What stands in for the result when time is over: a value, or another tool that takes the same arguments.
    keep
        Parts of a JSON result that the model reads, as paths: "status", "items[].sku" (of every item). It can ask for
        the rest. A result that has none of them, or another shape, is read as it is.
    max_result
        About how many tokens of a result the model reads; the rest it can ask for.
    summarize
        Text that is longer than that is summarized by a model, instead of cut.
    status
        What a person reads meanwhile, with parameters in braces.
    after
        Names of tools whose calls in the same reply come first.
    sequential
        It runs alone: what the model wrote before it comes first, what it wrote after it later.
    reads, writes
        Names of resources, with parameters in braces: "order:{order_id}". A writer of a resource runs beside no other
        call that reads or writes it; they go in the order in which the model wrote them.
    invalidates
        Names of further resources that it makes stale: kept results of tools that read them, or what it writes, go.
    requires
        Grants that a run must have for it.
    allow
        For a parameter the values that it may have: a collection, a compiled pattern that must match the whole text,
        or a function from value to bool. Of a list, each item is held against it.
    approval
        Whether a person must agree to a call: "never", "always", or a function from the arguments to bool.
    secrets
        Parameters that the audit log shows as ***.
    sandbox
        "process", or SandboxLimits: it runs in a process of its own, within limits, gone when the call ends. Only with
        bubblewrap is it also kept from the network and from what hotloop and its user can read; see docs/sandbox.md.
    """

    read_only: bool
    idempotent: bool
    optional: bool
    ttl: float | None
    scope: Scope | None
    timeout: float | None
    retry: int | None
    on_timeout: Any
    keep: Sequence[str]
    max_result: int | None
    summarize: bool
    status: str | None
    after: Sequence[str]
    sequential: bool
    reads: Sequence[str]
    writes: Sequence[str]
    invalidates: Sequence[str]
    requires: Collection[str]
    allow: Mapping[str, Collection[Any] | re.Pattern[str] | Callable[[Any], bool]]
    approval: Approval
    secrets: Collection[str]
    sandbox: Literal["process"] | SandboxLimits | None


def read_rules(options: ToolOptions, name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The options as fields of a Tool. Raises ToolDefinitionError for what is unknown, unusable or contradicts."""
    given: dict[str, Any] = dict(options)
    for option in given:
        if option not in ToolOptions.__annotations__:
            raise ToolDefinitionError(f"{option} is no option{did_you_mean(option, ToolOptions.__annotations__)}")
    _check_flags(given)
    _check_times(given)
    _check_effects(given)
    parameters = list(schema.get("properties", {}))
    for option in ("reads", "writes", "invalidates"):
        given[option] = _templates(option, given.get(option, ()), parameters)
    if given.get("status") is not None:
        given["status"] = read_template("status", given["status"], parameters)
    given["after"] = tuple(_texts("after", given.get("after", ())))
    if name in given["after"]:
        raise ToolDefinitionError("after names the tool itself, so that it could never start")
    keep = _texts("keep", given.get("keep", ()))
    given["keep"] = read_keep(keep) if keep else None
    given["requires"] = frozenset(_texts("requires", given.get("requires", ())))
    given["secrets"] = frozenset(_parameters("secrets", given.get("secrets", ()), parameters))
    allow = given.get("allow", {})
    if not isinstance(allow, Mapping):
        raise ToolDefinitionError(f"allow={allow!r}; give a dict from parameters to what they may be")
    _parameters("allow", allow, parameters)
    given["allow"] = {
        parameter: _allowed(parameter, rule, schema["properties"][parameter]) for parameter, rule in allow.items()
    }
    given["sandbox"] = _sandbox(given.get("sandbox"))
    _check_stand_in(given, parameters)
    return given


def _check_flags(given: dict[str, Any]) -> None:
    for option in ("read_only", "idempotent", "optional", "sequential", "summarize"):
        if not isinstance(given.get(option, False), bool):
            raise ToolDefinitionError(f"{option}={given[option]!r}; give True or False")


def _check_times(given: dict[str, Any]) -> None:
    for option in ("ttl", "timeout"):
        seconds = given.get(option)
        if seconds is not None and not _is_time(seconds):
            raise ToolDefinitionError(f"{option}={seconds!r}; give seconds as a number, more than 0")
    retry, size = given.get("retry"), given.get("max_result")
    if retry is not None and (type(retry) is not int or retry < 0):
        raise ToolDefinitionError(f"retry={retry!r}; give the number of attempts after the first, 0 or more")
    if size is not None and (type(size) is not int or size < 1):
        raise ToolDefinitionError(f"max_result={size!r}; give a number of tokens, 1 or more")


def _is_time(seconds: object) -> bool:
    return isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < math.inf


def _check_effects(given: dict[str, Any]) -> None:
    """What may be done only to a tool that changes nothing."""
    read_only = given.get("read_only", False)
    for option in ("ttl", "scope"):
        if given.get(option) is not None and not read_only:
            raise ToolDefinitionError(f"{option} keeps results, which is right only for a tool declared read_only=True")
    if given.get("scope") not in (None, *_SCOPES):
        raise ToolDefinitionError(f"scope={given['scope']!r}; give one of {', '.join(_SCOPES)}")
    if given.get("retry") and not (read_only or given.get("idempotent")):
        raise ToolDefinitionError(
            "retry may run it twice; declare read_only=True or idempotent=True if that is harmless"
        )
    for option in ("writes", "invalidates"):
        if given.get(option) and read_only:
            raise ToolDefinitionError(f"{option} is for a tool that changes something, but it is declared read_only")
    approval = given.get("approval", "never")
    if approval not in ("never", "always") and not _is_test(approval):
        raise ToolDefinitionError(f'approval={approval!r}; give "never", "always" or a function of the arguments')


def _templates(option: str, texts: object, parameters: list[str]) -> tuple[Template, ...]:
    return tuple(read_template(option, text, parameters) for text in _texts(option, texts))


def _texts(option: str, texts: Any) -> list[str]:
    if isinstance(texts, str) or not isinstance(texts, Collection):
        raise ToolDefinitionError(f"{option}={texts!r}; give a tuple of texts, ({texts!r},)")
    for text in texts:
        if not isinstance(text, str) or not text:
            raise ToolDefinitionError(f"{option}: {text!r} is no name")
    return list(texts)


def _parameters(option: str, names: Any, parameters: list[str]) -> list[str]:
    for name in _texts(option, names):
        if name not in parameters:
            raise ToolDefinitionError(f"{option}: {name!r} is no parameter; there is {', '.join(parameters) or 'none'}")
    return list(names)


def _allowed(parameter: str, rule: Any, schema: Any) -> Allowed:
    """The test that a value of this parameter must pass."""
    if isinstance(rule, re.Pattern):
        if isinstance(schema, dict) and schema.get("type") in ("integer", "number", "boolean"):
            raise ToolDefinitionError(f"allow: {parameter!r} is no text, so no pattern matches it; give a function")
        return Allowed(lambda value: isinstance(value, str) and rule.fullmatch(value) is not None, "fit its pattern")
    if _is_test(rule):
        return Allowed(rule, "be another")
    if isinstance(rule, str) or not isinstance(rule, Collection):
        raise ToolDefinitionError(
            f"allow: {parameter!r} is given {rule!r}; give a tuple of values, a compiled pattern or a function"
        )
    if not rule:
        raise ToolDefinitionError(f"allow: {parameter!r} is allowed no value at all; leave the tool out instead")
    return Allowed(lambda value: value in rule, f"be one of {', '.join(map(str, rule))}")


def _sandbox(limits: object) -> SandboxLimits | None:
    if limits is None:
        return None
    from hotloop.tools.sandbox import SandboxLimits

    if limits == "process":
        return SandboxLimits()
    if not isinstance(limits, SandboxLimits):
        raise ToolDefinitionError(f'sandbox={limits!r}; give "process" or SandboxLimits(...), or leave it out')
    return limits


def _is_test(test: object) -> bool:
    """Whether it can be asked for a bool at once; what a coroutine function gives would always count as true."""
    return callable(test) and not inspect.iscoroutinefunction(innermost(test))


def _check_stand_in(given: dict[str, Any], parameters: list[str]) -> None:
    """What stands in on a timeout: a value for the model, or a tool with the same arguments and no further rules."""
    other = given.get("on_timeout", TELL_MODEL)
    if other is TELL_MODEL:
        return
    if not isinstance(other, Tool):
        _check_value(other)
        return
    known = other.parameters.get("properties", {})
    missing = [name for name in other.parameters.get("required", ()) if name not in parameters]
    foreign = [name for name in parameters if name not in known]
    if missing or foreign:
        raise ToolDefinitionError(
            f"on_timeout: {other.name} takes other arguments ({', '.join(known) or 'none'}) than it would be given"
        )
    if given.get("read_only") and not other.read_only:
        raise ToolDefinitionError(f"on_timeout: {other.name} is not read-only, as this tool is")
    if other.approval != "never" or other.allow or not other.requires <= given["requires"]:
        raise ToolDefinitionError(f"on_timeout: {other.name} has an approval, an allow-list or a grant of its own")
    if other.after or other.sequential or other.reads or other.writes or other.invalidates:
        raise ToolDefinitionError(f"on_timeout: {other.name} has an order of its own, which a stand-in cannot keep")


def _check_value(value: object) -> None:
    if callable(value):
        raise ToolDefinitionError(f"on_timeout={value!r}; give a value, or make a tool of the function")
    try:
        encode_result(value)
    except ToolError as error:
        raise ToolDefinitionError(f"on_timeout: {error}") from None
