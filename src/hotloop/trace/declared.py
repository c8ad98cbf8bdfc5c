"""What of an agent's declaration goes with the records of its runs: whose its parts are, its prices, its limit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from hotloop.fields import Text, check_fields, require
from hotloop.trace.ledger import AttemptFacts, Usage
from hotloop.trace.rows import ALL_ROWS, ROW_OF
from hotloop.trace.tokens import is_counted, whole_sum
from hotloop.words import listed

_MILLION = 1_000_000


class Owners(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who answers for which part of an agent: its tools and models by name, its stages by kind or row of the budget.

    Raises ConfigError for a stage that there is not.
    """

    tools: dict[str, Text] = {}
    models: dict[str, Text] = {}
    stages: dict[str, Text] = {}

    def __post_init__(self) -> None:
        check_fields(Owners, msgspec.structs.asdict(self), "Owners")
        for name in self.stages:
            known = sorted({*ROW_OF, *ALL_ROWS})
            require(name in known, f"Owners(stages=...): There is no stage {name!r}; there are {listed(name, known)}.")

    def of_tool(self, name: str) -> str:
        """The owner of a tool, or of all of them; "" for nobody."""
        return self.tools.get(name) or self.of_stage("tool")

    def of_model(self, name: str) -> str:
        """The owner of a model, or of all of them; "" for nobody."""
        return self.models.get(name) or self.of_stage("model")

    def of_stage(self, name: str) -> str:
        """The owner of a stage by its kind, or of a row of the budget; "" for nobody."""
        name = name.removeprefix("turn.")
        return self.stages.get(name) or self.stages.get(ROW_OF.get(name, ""), "")


class Price(msgspec.Struct, frozen=True):
    """What a million tokens of a model cost where it is served, in any one currency."""

    service: str
    model: str
    price_in: float
    price_out: float

    def of(self, usage: Usage) -> float | None:
        """What these tokens cost; None if they are not known."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        return (usage.input_tokens * self.price_in + usage.output_tokens * self.price_out) / _MILLION


class Priced(Protocol):
    """A model, as far as its price goes; see `hotloop.Model`."""

    @property
    def name(self) -> str: ...

    @property
    def where(self) -> str: ...

    @property
    def price_in(self) -> float | None: ...

    @property
    def price_out(self) -> float | None: ...


class Declared(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What whoever reads a record may want to know of its agent; `context_limit` is tokens."""

    owners: Owners = Owners()
    prices: tuple[Price, ...] = ()
    context_limit: int | None = None

    @classmethod
    def of(cls, owners: Owners | None, models: Iterable[Priced], context_limit: int | None) -> Declared:
        """What is known of an agent of these models."""
        known = dict.fromkeys(
            Price(model.where, model.name, model.price_in, model.price_out)
            for model in models
            if model.price_in is not None and model.price_out is not None
        )
        return cls(owners=owners or Owners(), prices=tuple(known), context_limit=context_limit)

    def cost(self, requests: Iterable[AttemptFacts]) -> float | None:
        """What these requests cost; None if that is not known of one that counts."""
        return whole_sum(self._cost(each) for each in requests if is_counted(each))

    def _cost(self, request: AttemptFacts) -> float | None:
        price = self.price(request.service, request.model)
        return None if price is None else price.of(request.usage)

    def price(self, service: str, model: str) -> Price | None:
        """The price of a model at a service, None if it is not known."""
        return next((each for each in self.prices if (each.service, each.model) == (service, model)), None)


NOTHING_DECLARED = Declared()
"""Of an agent of which nothing is known."""
