"""What a run cost: the tokens of every request of it, at the prices of the models that wrote them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hotloop.models.model import Model
from hotloop.trace.ledger import Usage
from hotloop.trace.trace import Trace

_MILLION = 1_000_000

Price = Callable[[Trace], float | None]
"""What a run cost, in the currency of its models' prices; None if not all of it is known."""


def price_of(model: Model) -> Price:
    """For runs of one model."""
    return lambda trace: _sum([_cost(model, facts.usage) for facts in trace.turns])


def routed_price(models: Mapping[str, Model]) -> Price:
    """For runs of a router with these models: replies that were not good enough count, too."""
    return lambda trace: _sum(
        [
            _cost(models[tried.route], tried.usage)
            for facts in trace.facts.get("routes", ())
            for tried in facts.tried
            if tried.outcome != "failed"
        ]
    )


def _sum(costs: list[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


def _cost(model: Model, usage: Usage) -> float | None:
    counts, prices = (usage.input_tokens, usage.output_tokens), (model.price_in, model.price_out)
    if None in counts or None in prices:
        return None
    return sum((count or 0) * (price or 0.0) for count, price in zip(counts, prices, strict=True)) / _MILLION
