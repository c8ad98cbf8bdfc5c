"""A learned choice between routes: a linear model over the words of a prompt, in a file of a few kilobytes."""

from __future__ import annotations

import math
from itertools import chain
from pathlib import Path
from typing import Self

import msgspec

from hotloop.errors import ConfigError
from hotloop.files import write_whole


class RouteClassifier(msgspec.Struct, frozen=True, kw_only=True):
    """Says which route is good enough for a prompt, and how sure it is.

    `weights` has, for each bucket of `features`, a number for each of `routes`; `bias` has one for each route. Below
    the `confidence` it abstains. `hotloop route` trains one from what was right before. Raises ConfigError if these do
    not fit together.
    """

    routes: tuple[str, ...]
    bias: tuple[float, ...]
    weights: dict[int, tuple[float, ...]]
    confidence: float = 0.7

    def __post_init__(self) -> None:
        if not 0 <= self.confidence < 1:
            raise ConfigError(f"The classifier's confidence is {self.confidence!r}; give a share from 0 to below 1.")
        if not self.routes:
            raise ConfigError("The classifier has no routes; train one with `hotloop route`.")
        for name, numbers in chain([("bias", self.bias)], (("weight", each) for each in self.weights.values())):
            if len(numbers) != len(self.routes):
                raise ConfigError(f"A {name} of the classifier is for {len(numbers)} routes of {len(self.routes)}.")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read one that was saved. Raises ConfigError for a file that has none."""
        try:
            return msgspec.json.decode(Path(path).read_bytes(), type=cls)
        except FileNotFoundError:
            raise ConfigError(f"There is no file {path}; `hotloop route` makes one.") from None
        except OSError as error:
            raise ConfigError(f"The file {path} cannot be read: {error.strerror}.") from None
        except (msgspec.MsgspecError, UnicodeDecodeError, ConfigError) as error:
            raise ConfigError(f"The file {path} has no classifier of routes: {str(error).rstrip('.')}.") from None

    def save(self, path: str | Path) -> None:
        """Write it as JSON, whole or not at all. Raises ConfigError where nothing can be written."""
        write_whole(Path(path), msgspec.json.encode(self) + b"\n")

    def predict(self, prompt: str) -> tuple[str, float]:
        """The likeliest route, and how likely it is."""
        from hotloop.models.routing.features import features  # few agents have a classifier

        found = features(prompt)
        known = [self.weights[bucket] for bucket in found if bucket in self.weights]
        scale = 1 / math.sqrt(len(found))
        sums = map(sum, zip(*known, strict=True)) if known else [0.0] * len(self.routes)
        scores = [bias + scale * each for bias, each in zip(self.bias, sums, strict=True)]
        best = max(scores)
        share = 1 / sum(math.exp(score - best) for score in scores)
        return self.routes[scores.index(best)], share
