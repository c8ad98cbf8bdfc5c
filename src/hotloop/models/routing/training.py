"""Learning from records which route is good enough for a prompt, and how well that works on others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import msgspec

from hotloop.errors import ConfigError
from hotloop.models.routing.classifier import RouteClassifier
from hotloop.models.routing.features import features

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

_FOLDS = 5
_STRENGTH = 10.0  # how freely the weights follow the records, as scikit-learn's C
_CONFIDENCES = (0.0, 0.6, 0.7, 0.8, 0.9)


class Share(msgspec.Struct, frozen=True):
    """What comes of one confidence, on prompts that were held out: shares of all prompts, and of those decided."""

    confidence: float
    decided: float
    right: float | None


class Training(msgspec.Struct, frozen=True):
    """What came of training: the classifier, how many prompts had each route, and held-out shares by confidence."""

    classifier: RouteClassifier
    prompts: dict[str, int]
    held_out: list[Share]


def train(labels: Mapping[str, str], confidence: float = 0.7) -> Training:
    """Learn from prompts and the route that is good enough for each; see `records.good_enough`.

    Accuracy is measured by cross-validation: each prompt is judged by a model that has not seen it. Raises ConfigError
    if there are fewer than two routes, or of one fewer than two prompts, and without scikit-learn.
    """
    counts = Counter(labels.values())
    if len(counts) < 2 or min(counts.values()) < 2:
        raise ConfigError(
            f"Two routes with at least two prompts each are needed to learn from; there are {_told(counts)}."
        )
    found, routes = [features(prompt) for prompt in labels], list(labels.values())
    buckets = sorted(set[int]().union(*found))
    matrix = _matrix(found, buckets)
    classifier = _classifier(_fitted(matrix, routes), buckets, confidence)
    return Training(classifier, dict(counts), _held_out(matrix, routes, min(counts.values())))


def _told(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} for {route}" for route, count in counts.items()) or "none"


def _matrix(found: list[set[int]], buckets: list[int]) -> Any:
    """A row for each prompt, of length 1, with a place for each bucket that any of them has."""
    try:
        from scipy.sparse import csr_array
    except ModuleNotFoundError:
        raise ConfigError('Training a classifier needs scikit-learn: pip install "hotloop[route]".') from None
    column = {bucket: place for place, bucket in enumerate(buckets)}
    values = [1 / math.sqrt(len(row)) for row in found for _ in row]
    starts = [0, *accumulate(map(len, found))]
    return csr_array((values, [column[bucket] for row in found for bucket in row], starts), (len(found), len(buckets)))


def _fitted(matrix: Any, routes: list[str]) -> LogisticRegression:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=_STRENGTH, max_iter=1000).fit(matrix, routes)


def _classifier(model: LogisticRegression, buckets: list[int], confidence: float) -> RouteClassifier:
    """The learned weights, each with its bucket."""
    weights, bias = model.coef_, model.intercept_
    if len(model.classes_) == 2:  # one row says how much more the second route has than the first
        weights, bias = [-weights[0] / 2, weights[0] / 2], [-bias[0] / 2, bias[0] / 2]
    columns = (tuple(round(float(value), 4) for value in column) for column in zip(*weights, strict=True))
    return RouteClassifier(
        routes=tuple(map(str, model.classes_)),
        bias=tuple(map(float, bias)),
        weights=dict(zip(buckets, columns, strict=True)),
        confidence=confidence,
    )


def _held_out(matrix: Any, routes: list[str], fewest: int) -> list[Share]:
    from sklearn.model_selection import StratifiedKFold

    folds = StratifiedKFold(min(_FOLDS, fewest), shuffle=True, random_state=0)
    judged: list[tuple[float, bool]] = []
    for learned, held in folds.split(matrix, routes):
        model = _fitted(matrix[learned], [routes[place] for place in learned])
        for place, shares in zip(held, model.predict_proba(matrix[held]), strict=True):
            judged.append((shares.max(), model.classes_[shares.argmax()] == routes[place]))
    return [_share(judged, confidence) for confidence in _CONFIDENCES]


def _share(judged: list[tuple[float, bool]], confidence: float) -> Share:
    decided = [right for sure, right in judged if sure >= confidence]
    return Share(confidence, len(decided) / len(judged), sum(decided) / len(decided) if decided else None)
