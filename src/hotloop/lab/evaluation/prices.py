"""What a run cost: the tokens of every request of it, at the prices of the models that they went to."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hotloop.models.model import Model
from hotloop.trace.ledger import Usage
from hotloop.trace.trace import Trace

_MILLION = 1_000_000

Price = Callable[[Trace], float | None]
"""What a run cost, in the currency of its models' prices; None if not all of it is known."""


def price_of(models: Iterable[Model]) -> Price:
    """For runs of these models: replies that were not good enough count, and prompts that were only read.

    A request that failed, or was cancelled, costs what its service told of its tokens, which is mostly nothing.
    """
    prices = {(model.where, model.name): (model.price_in, model.price_out) for model in models}

    def price(trace: Trace) -> float | None:
        told = [each for each in trace.attempts if each.outcome in ("ok", "rejected") or each.usage != Usage()]
        costs = [_cost(each.usage, *prices.get((each.service, each.model), (None, None))) for each in told]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if len(known) == len(costs) and (told or not trace.turns) else None

    return price


def _cost(usage: Usage, price_in: float | None, price_out: float | None) -> float | None:
    if usage.input_tokens is None or usage.output_tokens is None or price_in is None or price_out is None:
        return None
    return (usage.input_tokens * price_in + usage.output_tokens * price_out) / _MILLION
