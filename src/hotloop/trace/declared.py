"""What of an agent's declaration goes with the records of its runs: whose its parts are, its prices, its limit."""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from hotloop.fields import Text, check_fields, require
from hotloop.trace.ledger import Kind, Usage
from hotloop.trace.record import TraceRecord
from hotloop.trace.trace import ROWS
from hotloop.words import listed

FACT = "declared"
"""The fact of a run that holds it."""

_MILLION = 1_000_000
_ROW_OF = {kind: row for row, kinds in ROWS.items() for kind in kinds}
_STAGES = sorted({*get_args(Kind), *ROWS, "total"})


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
            there = f"There is no stage {name!r}; there are {listed(name, _STAGES)}."
            require(name in _STAGES, f"Owners(stages=...): {there}")

    def of_tool(self, name: str) -> str:
        """The owner of a tool, or of all of them; "" for nobody."""
        return self.tools.get(name) or self.of_stage("tool")

    def of_model(self, name: str) -> str:
        """The owner of a model, or of all of them; "" for nobody."""
        return self.models.get(name) or self.of_stage("model")

    def of_stage(self, name: str) -> str:
        """The owner of a stage by its kind, or of a row of the budget; "" for nobody."""
        name = name.removeprefix("turn.")
        return self.stages.get(name) or self.stages.get(_ROW_OF.get(name, ""), "")


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


class Declared(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What whoever reads a record may want to know of its agent; `context_limit` is tokens."""

    owners: Owners = Owners()
    prices: tuple[Price, ...] = ()
    context_limit: int | None = None

    def price(self, service: str, model: str) -> Price | None:
        """The price of a model at a service, None if it is not known."""
        return next((each for each in self.prices if (each.service, each.model) == (service, model)), None)


_NOTHING = Declared()


def declared_of(record: TraceRecord) -> Declared:
    """What was declared of the agent that this is a run of."""
    fact: Any = record.facts.get(FACT)
    return msgspec.convert(fact, Declared) if fact else _NOTHING
