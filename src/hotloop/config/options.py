"""What `Agent(...)` takes, with the same limits that a declaration has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hotloop.config.spec import Count, Retries, Seconds
from hotloop.errors import ConfigError
from hotloop.models.model import Model
from hotloop.models.policy.policy import Policy
from hotloop.models.routing.router import Router


class AgentOptions(msgspec.Struct, kw_only=True):
    """The plain options of an agent; see `Agent`."""

    instructions: str
    name: str
    api_key: str | None
    headers: dict[str, str] | None
    dialect: str | None
    temperature: Annotated[float, Meta(ge=0)] | None
    max_tokens: Count | None
    stream: bool
    timeout: Seconds | None
    retries: Retries | None
    max_turns: Count
    max_parallel: Count
    tool_timeout: Seconds | None
    tool_retry: Retries
    tool_ttl: Annotated[float, Meta(ge=0)] | None
    prefix_cache: bool
    speculate: bool
    shortlist: Count | None
    plan: bool
    max_result: Count | None


def check_options(given: dict[str, Any]) -> None:
    """Raise ConfigError, with the option's name, if one is of the wrong type or out of its limits."""
    options = {name: given[name] for name in AgentOptions.__struct_fields__}
    try:
        msgspec.convert(options, AgentOptions)
    except msgspec.ValidationError as fault:
        what, _, where = str(fault).partition(" - at `$.")
        raise ConfigError(f"Agent({where.rstrip('`')}=...): {what[:1].lower()}{what[1:]}.") from None


_OF_A_MODEL = ("endpoint", "api_key", "headers", "dialect", "temperature", "max_tokens", "policy")


def first_model(given: dict[str, Any]) -> Model | Router:
    """The model that an agent asks first, from all that `Agent(...)` was given. Raises ConfigError."""
    model = given["model"]
    if isinstance(model, Router):
        _require_unsaid(given, (*_OF_A_MODEL, "timeout", "retries"), "the models of the router say")
        return model
    changed = {"total": given["timeout"], "retries": given["retries"]}
    if isinstance(model, Model):
        _require_unsaid(given, _OF_A_MODEL, "the model is a Model, which says")
    else:
        if given["endpoint"] is None:
            raise ConfigError('The endpoint is None; give a URL or "local".')
        own = {name: given[name] for name in _OF_A_MODEL if given[name] is not None}
        model = Model(name=model, **own)
    first: Model = msgspec.structs.replace(model, policy=_with(model.policy, changed))
    return first


def _require_unsaid(given: dict[str, Any], names: Sequence[str], who: str) -> None:
    for name in names:
        if given[name] is not None:
            raise ConfigError(f"Agent({name}=...): {who} that itself; leave it out.")


def _with(policy: Policy, changed: dict[str, Any]) -> Policy:
    given = {name: value for name, value in changed.items() if value is not None}
    return msgspec.structs.replace(policy, **given) if given else policy
