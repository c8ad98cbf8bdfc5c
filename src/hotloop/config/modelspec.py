"""Who thinks for an agent, declared: one model with others to fall back on, or a router of several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from hotloop.fields import Amount, Count, Natural, Seconds, Secret, Secrets, SomeShare, Text, require
from hotloop.masks import masked
from hotloop.models.model import Model, check_dialect, check_endpoint
from hotloop.models.policy.policy import Policy
from hotloop.models.routing.rules import Question, Rule
from hotloop.words import listed

Endpoint: TypeAlias = Annotated[str, Meta(min_length=1, extra={"check": check_endpoint})]
DialectName: TypeAlias = Annotated[str, Meta(extra={"check": check_dialect})]


class ModelSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A model and the service it runs on; see `hotloop.Model`."""

    endpoint: Endpoint
    model: Text
    api_key: Secret | None = None
    headers: Secrets = {}
    dialect: DialectName | None = None
    temperature: Amount | None = None
    max_tokens: Count | None = None
    price_in: Amount | None = None
    price_out: Amount | None = None
    policy: Policy = Policy()

    def __repr__(self) -> str:
        return masked(self)

    def declared(self) -> Model:
        """The model that it declares."""
        options = {name: getattr(self, name) for name in ModelSpec.__struct_fields__ if name != "model"}
        return Model(name=self.model, **options)


class InferenceSpec(ModelSpec, frozen=True, kw_only=True):
    """The model that is asked first, and those in `fallback`, which are asked when it will not do.

    `timeout` (seconds for one reply) and `retries` are those of its policy, where they are given.
    """

    stream: bool = True
    timeout: Seconds | None = None
    retries: Natural | None = None
    fallback: tuple[ModelSpec, ...] = ()


class RuleSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Which requests go to which model; see `hotloop.Rule`. `when` is a "module:function", `max_left` seconds."""

    to: Text
    when: Text | None = None
    pattern: Text | None = None
    min_tokens: Natural | None = None
    max_tokens: Natural | None = None
    max_left: Seconds | None = None
    background: bool | None = None

    def __post_init__(self) -> None:
        self.declared(when=None if self.when is None else bool)  # which stands for a function that is not imported yet

    def declared(self, when: Callable[[Question], bool] | None) -> Rule:
        """The rule that it declares, with the function that its `when` names. Raises ConfigError."""
        return Rule(**{**msgspec.structs.asdict(self), "when": when})


class CascadeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """When a stronger model is asked; see `hotloop.Cascade`."""

    confidence: SomeShare | None = None


class RouterSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Several models in the place of one; see `hotloop.Router`. `classifier` is a file that `hotloop route` wrote."""

    default: Text
    models: dict[str, ModelSpec]
    rules: tuple[RuleSpec, ...] = ()
    classifier: Text | None = None
    cascade: CascadeSpec | None = None
    per: Literal["request", "turn"] = "request"
    fallback: tuple[ModelSpec, ...] = ()
    stream: bool = True

    def __post_init__(self) -> None:
        require(bool(self.models), "The router has no models; give at least one, by name.")
        named = {"default": self.default, **{f"rules[{place}].to": rule.to for place, rule in enumerate(self.rules)}}
        for key, name in named.items():
            known = f"which is no model of the router; there are {listed(name, self.models)}."
            require(name in self.models, f"{key} is {name!r}, {known}")
