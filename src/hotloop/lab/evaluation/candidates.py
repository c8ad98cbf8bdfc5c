"""An agent with a router, and the same agent with each of its models alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from hotloop.agent import Agent
from hotloop.lab.evaluation.prices import Price, price_of
from hotloop.models.model import Model
from hotloop.models.policy.policy import Policy
from hotloop.models.routing.router import Router

ROUTER = "router"
"""What the agent with its router is called."""


class Candidate(NamedTuple):
    """An agent that answers cases, what it is called, and what its runs cost."""

    route: str
    agent: Agent
    price: Price


def candidates(arguments: Mapping[str, Any]) -> list[Candidate]:
    """From the arguments of `Agent`: one with each model of its router, the cheapest first, and one as it is.

    Without a router there is only one, called like its model. None of them gives kept answers, nor leaves a service
    alone that failed: a case does not depend on those before it. Raises ConfigError.
    """
    own = {name: value for name, value in arguments.items() if name != "answers"}
    model, fallback = own["model"], [_unbroken(each) for each in own.get("fallback", ())]
    own["fallback"] = fallback
    if isinstance(model, Router):
        models = {name: _unbroken(each) for name, each in model.models.items()}
        router = msgspec.structs.replace(model, models=models)
        alone = [
            Candidate(name, Agent(**own | {"model": each}), price_of([each, *fallback]))
            for name, each in models.items()
        ]
        return [*alone, Candidate(ROUTER, Agent(**own | {"model": router}), price_of([*models.values(), *fallback]))]
    if isinstance(model, Model):
        only = _unbroken(model)
        return [Candidate(only.name, Agent(**own | {"model": only}), price_of([only, *fallback]))]
    policy = _without_breaker(own.get("policy") or Policy())
    return [Candidate(model, Agent(**own | {"policy": policy}), price_of(fallback))]


def _unbroken(model: Model) -> Model:
    return msgspec.structs.replace(model, policy=_without_breaker(model.policy))


def _without_breaker(policy: Policy) -> Policy:
    return msgspec.structs.replace(policy, breaker=None)
