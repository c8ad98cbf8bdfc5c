"""What a run cost: the tokens of every request of it, at the prices of the models that they went to."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hotloop.models.model import Model
from hotloop.trace.declared import Declared
from hotloop.trace.tokens import is_counted
from hotloop.trace.trace import Trace

Price = Callable[[Trace], float | None]
"""What a run cost, in the currency of its models' prices; None if not all of it is known."""


def price_of(models: Iterable[Model]) -> Price:
    """For runs of these models; see `hotloop.trace.tokens` for which requests count."""
    declared = Declared.of(None, models, None)

    def price(trace: Trace) -> float | None:
        told = any(map(is_counted, trace.attempts)) or not trace.turns
        return declared.cost(trace.attempts) if told else None

    return price
