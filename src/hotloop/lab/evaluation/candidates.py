"""An agent with a router, and the same agent with each of its models alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hotloop.agent import Agent
from hotloop.lab.evaluation.prices import Price, price_of
from hotloop.models.model import Model
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

    Without a router there is only one, called like its model. None of them gives kept answers. Raises ConfigError.
    """
    own = {name: value for name, value in arguments.items() if name != "answers"}
    model, fallback = own["model"], own.get("fallback", ())
    if isinstance(model, Router):
        alone = [
            Candidate(name, Agent(**own | {"model": each}), price_of([each, *fallback]))
            for name, each in model.models.items()
        ]
        return [*alone, Candidate(ROUTER, Agent(**own), price_of([*model.models.values(), *fallback]))]
    if isinstance(model, Model):
        return [Candidate(model.name, Agent(**own), price_of([model, *fallback]))]
    return [Candidate(model, Agent(**own), price_of(fallback))]
