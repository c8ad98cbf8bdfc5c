"""An agent with a router, and the same agent with each of its models alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hotloop.agent import Agent
from hotloop.lab.evaluation.prices import Price, price_of, routed_price
from hotloop.models.model import Model
from hotloop.models.routing.router import Router

ROUTER = "router"
"""What the agent with its router is called."""


class Contestant(NamedTuple):
    """An agent that answers cases, what it is called, and what its runs cost (None if its model has no prices)."""

    route: str
    agent: Agent
    price: Price | None


def contestants(arguments: Mapping[str, Any]) -> list[Contestant]:
    """From the arguments of `Agent`: one with each model of its router, the cheapest first, and one as it is.

    Without a router there is only one, called like its model. None of them gives kept answers. Raises ConfigError.
    """
    own = {name: value for name, value in arguments.items() if name != "answers"}
    model = own["model"]
    if isinstance(model, Router):
        alone = [
            Contestant(name, Agent(**own | {"model": each}), price_of(each)) for name, each in model.models.items()
        ]
        return [*alone, Contestant(ROUTER, Agent(**own), routed_price(model.models))]
    if isinstance(model, Model):
        return [Contestant(model.name, Agent(**own), price_of(model))]
    return [Contestant(model, Agent(**own), None)]
