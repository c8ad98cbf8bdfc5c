"""What `Agent(...)` takes, with the same limits that a declaration has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from hotloop.budget import Budget
from hotloop.context.settings import Context
from hotloop.fields import Amount, Count, Natural, Seconds, SecondsOrZero, Secret, Secrets, check_fields, require
from hotloop.models.model import Model
from hotloop.models.policy.policy import Policy
from hotloop.models.rejection import empty_answer
from hotloop.models.routing.router import Router
from hotloop.tools.prefetch.settings import Prefetch
from hotloop.trace.declared import Owners


class AgentOptions(msgspec.Struct, kw_only=True):
    """The plain options of an agent; see `Agent`."""

    instructions: str
    name: str
    budget: Budget | None
    api_key: Secret | None
    headers: Secrets | None
    dialect: str | None
    temperature: Amount | None
    max_tokens: Count | None
    stream: bool
    timeout: Seconds | None
    retries: Natural | None
    policy: Policy | None
    max_turns: Count
    max_parallel: Count
    tool_timeout: Seconds | None
    tool_retry: Natural
    tool_ttl: SecondsOrZero | None
    prefix_cache: bool
    speculate: bool
    shortlist: Count | None
    plan: bool
    prefetch: Prefetch | None
    max_result: Count | None
    context: Context | None
    version: str
    owners: Owners | None
    busy: Literal["queue", "reject", "merge"]


def check_options(given: Mapping[str, Any]) -> None:
    """Raise ConfigError, with the option's name, if one is of the wrong type or out of its limits."""
    check_fields(AgentOptions, {name: given[name] for name in AgentOptions.__struct_fields__}, "Agent")
    tools = given["tools"]
    listed = isinstance(tools, Sequence) and not isinstance(tools, str | bytes)
    require(listed, f"tools is {tools!r}; give a list of tools.")
    for option in ("audit", "approvals"):
        path = given[option]
        is_file = isinstance(path, str | Path) and bool(str(path))
        require(path is None or is_file, f"{option} is {path!r}; give a file.")
    _check_lasting(given["memory"], given["sessions"], given["context"])
    _check_exporters(given["exporters"])
    _check_fallback(given["fallback"], given["reject"])


def _check_lasting(memory: Any, sessions: Any, context: Context | None) -> None:
    summarizer = None if context is None else context.summarizer
    is_model = summarizer is None or isinstance(summarizer, Model)
    require(is_model, f"Context(summarizer=...) is {summarizer!r}; make it with Model(...).")
    if memory is not None:
        from hotloop.context.memory.memory import Memory

        require(isinstance(memory, Memory), f"memory is {memory!r}; make it with Memory(...).")
    is_file = isinstance(sessions, str | Path) and bool(str(sessions))
    is_store = all(hasattr(sessions, method) for method in ("load", "commit", "turns", "delete"))
    require(sessions is None or is_file or is_store, f'sessions is {sessions!r}; give a file, ":memory:" or a store.')


def _check_exporters(exporters: Any) -> None:
    listed = isinstance(exporters, Sequence) and not isinstance(exporters, str | bytes)
    require(listed, f"exporters is {exporters!r}; give a list of exporters.")
    for each in exporters:
        made = not isinstance(each, type) and all(callable(getattr(each, method, None)) for method in _OF_AN_EXPORTER)
        require(made, f"exporters has {each!r} in it; give objects with export(records) and close().")


def _check_fallback(fallback: Any, reject: Any) -> None:
    listed = isinstance(fallback, Sequence) and all(isinstance(each, Model) for each in fallback)
    require(listed, f"fallback is {fallback!r}; give a list of models, made with Model(...).")
    callables = isinstance(reject, Sequence) and all(map(callable, reject))
    require(callables, f"reject is {reject!r}; give a list of functions of a Reply that say what is wrong with it.")
    useful = not reject or bool(fallback) or tuple(reject) == (empty_answer,)  # which is the default
    asked = "give fallback=[Model(...)]; a router's own models are asked with Cascade(reject=...)"
    require(useful, f"There is no model to ask when reject finds something wrong: {asked}.")


_OF_AN_EXPORTER = ("export", "close")
_OF_A_MODEL = ("endpoint", "api_key", "headers", "dialect", "temperature", "max_tokens", "policy")


def first_model(given: Mapping[str, Any]) -> Model | Router:
    """The model that an agent asks first, from all that `Agent(...)` was given. Raises ConfigError."""
    model = given["model"]
    if isinstance(model, Router):
        _require_unsaid(given, (*_OF_A_MODEL, "timeout", "retries"), "the models of the router say")
        return model
    changed = {"total": given["timeout"], "retries": given["retries"]}
    if isinstance(model, Model):
        _require_unsaid(given, _OF_A_MODEL, "the model is a Model, which says")
    else:
        require(isinstance(model, str) and bool(model), f"model is {model!r}; give a name, a Model or a Router.")
        require(given["endpoint"] is not None, 'The endpoint is None; give a URL or "local".')
        own = {name: given[name] for name in _OF_A_MODEL if given[name] is not None}
        model = Model(name=model, **own)
    first: Model = msgspec.structs.replace(model, policy=_with(model.policy, changed))
    return first


def _require_unsaid(given: Mapping[str, Any], names: Sequence[str], who: str) -> None:
    for name in names:
        require(given[name] is None, f"Agent({name}=...): {who} that itself; leave it out.")


def _with(policy: Policy, changed: dict[str, Any]) -> Policy:
    given = {name: value for name, value in changed.items() if value is not None}
    return msgspec.structs.replace(policy, **given) if given else policy
