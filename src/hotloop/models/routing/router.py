"""A router, declared: which models there are, and how one of them is chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Literal

import msgspec

from hotloop.errors import ConfigError
from hotloop.fields import SomeShare, check_fields, require
from hotloop.models.model import Model
from hotloop.models.rejection import Predicate, empty_answer, refused_tool
from hotloop.models.routing.classifier import RouteClassifier
from hotloop.models.routing.rules import Rule
from hotloop.words import listed


class Cascade(msgspec.Struct, frozen=True, kw_only=True):
    """When the next stronger model is asked after the one that was chosen.

    It is asked if that one failed, wrote calls or an answer of the wrong form, or a reply that a predicate in `reject`
    finds fault with; with a `confidence` also if the model was less sure of its words than that, from 0 to 1, as far as
    its service tells. But only if the time that the stronger one usually takes is left before the deadline. If all that
    are stronger fail, the newest reply that is not empty is taken after all.
    """

    reject: Sequence[Predicate] = (empty_answer, refused_tool)
    confidence: SomeShare | None = None

    def __post_init__(self) -> None:
        check_fields(Cascade, msgspec.structs.asdict(self), "Cascade")
        listed = isinstance(self.reject, Sequence) and all(map(callable, self.reject))
        require(listed, "Cascade(reject=...): give a list of functions of a Reply that say what is wrong with it.")


class Router(msgspec.Struct, frozen=True, kw_only=True):
    """Several models in the place of one: `Agent(model=Router(...))`.

    `models` are by the names of their routes, the cheapest first. The first rule that fits decides; if none does, the
    `classifier`, unless it is not sure; else it is the `default`. With `per` "request" a run stays with the model that
    has answered its first turn, which keeps its prompt cached; with "turn" each turn is decided anew. Raises
    ConfigError for names that are no routes.
    """

    models: Mapping[str, Model]
    default: str
    rules: Sequence[Rule] = ()
    classifier: RouteClassifier | None = None
    cascade: Cascade | None = None
    per: Literal["request", "turn"] = "request"

    def __post_init__(self) -> None:
        named = isinstance(self.models, Mapping) and bool(self.models)
        named = named and all(isinstance(each, Model) for each in self.models.values())
        require(named, "A router needs models by name: Router(models={'fast': Model(...), ...}, ...).")
        listed_rules = isinstance(self.rules, Sequence) and all(isinstance(each, Rule) for each in self.rules)
        require(listed_rules, "Router(rules=...): give a list of Rule(...).")
        check_fields(Router, msgspec.structs.asdict(self), "Router")
        for name in chain([self.default], (rule.to for rule in self.rules)):
            if name not in self.models:
                raise ConfigError(f"The router has no model {name!r}; there are {listed(name, self.models)}.")
        for name in self.classifier.routes if self.classifier else ():
            if name not in self.models:
                raise ConfigError(
                    f"The router's classifier has learned a route {name!r}, which is none of its models: "
                    f"{listed(name, self.models)}. Name the models as in the records, or train it anew."
                )

    def scored(self, name: str) -> bool:
        """Whether a model is to tell how sure it is of each token: one whose reply may be escalated for doubt."""
        doubts = self.cascade is not None and self.cascade.confidence is not None
        return doubts and name != list(self.models)[-1]
