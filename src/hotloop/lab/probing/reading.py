"""What comes before the first token, from measurements: the round trip, the front, reading the prompt, the cache."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median

from hotloop.lab.probing.curves import Point, fit_powers
from hotloop.lab.probing.samples import Sample
from hotloop.trace.stats import percentile

_MOST_WEIGHT = 300.0  # of one point, so that the line has to fit everywhere and not only where most was measured
_UNSEEN_BLOCK = 16  # tokens, of a cache that shows in the times only
_LARGEST_BLOCK = 1024
_SPARED = 0.5  # share of what was sent before, which must have been spared for that to be a cache


def uncached(sample: Sample) -> int:
    """The tokens of the prompt that had to be read, as far as the service says so."""
    return sample.prompt_tokens - (sample.cached_tokens or 0)


def ms_per_prompt_token(alone: Sequence[Sample]) -> float:
    """From the service's own times for reading prompts where it tells them, else from the times to the first token."""
    told = [(uncached(sample), sample.own.prefill_ms) for sample in alone if sample.own and sample.own.prefill_ms]
    seen = [(uncached(sample), sample.ttft_ms) for sample in alone if sample.ttft_ms and is_known(sample)]
    return fit_powers(_points(told or seen), (0, 1))[1]


def front_points(samples: Iterable[Sample], reading: float) -> list[Point]:
    """What is left of the time to the first token without reading, by how many other replies were running."""
    fronts = defaultdict(list)
    for sample in samples:
        if sample.ttft_ms is not None and is_known(sample):
            fronts[sample.others].append(max(front_ms(sample, reading), 0.001))
    return [Point(others, median(each), min(len(each), _MOST_WEIGHT)) for others, each in fronts.items()]


def front_ms(sample: Sample, reading: float) -> float:
    """The time to the first token without reading the prompt."""
    assert sample.ttft_ms is not None
    return sample.ttft_ms - reading * uncached(sample)


def rtt_ms(alone: Iterable[Sample]) -> float:
    """What the time to the first token has on top of what the service says it was; 0 if it does not say."""
    over = [s.ttft_ms - s.own.first_ms for s in alone if s.ttft_ms and s.own is not None and s.own.first_ms is not None]
    return max(round(median(over), 3), 0.0) if over else 0.0  # no clock here tells less than a microsecond


def queue_sigma(steady: Iterable[Sample], reading: float, rtt: float) -> float:
    """How much the front differs from request to request, as the sigma of a lognormal distribution."""
    fronts = [front_ms(sample, reading) - rtt for sample in steady if is_known(sample)]
    return spread([front for front in fronts if front > 0])


def cache_block(alone: Sequence[Sample], reading: float, front: float) -> int:
    """The block of the prefix cache in tokens, 0 if there is none.

    Where the service tells cached tokens they are whole blocks, and blocks are powers of two. Where it does not, it
    shows in the time that reading what was sent before would have taken.
    """
    counts = {sample.cached_tokens for sample in alone if sample.cached_tokens is not None}
    if counts:
        return math.gcd(*counts, _LARGEST_BLOCK) if any(counts) else 0
    again = [sample for sample in alone if sample.shared_tokens]
    spared = sum(front + reading * sample.prompt_tokens - (sample.ttft_ms or 0.0) for sample in again)
    whole = reading * sum(sample.shared_tokens for sample in again)
    return _UNSEEN_BLOCK if whole and spared / whole >= _SPARED else 0


def spread(values: Sequence[float]) -> float:
    """The sigma of the lognormal distribution that the middle two thirds of these are like."""
    if not values:
        return 0.0
    low, high = percentile(values, 16), percentile(values, 84)
    return min(math.log(high / low) / 2, 1.0)


def is_known(sample: Sample) -> bool:
    """Whether it is known how much of the prompt had to be read."""
    return not sample.shared_tokens or sample.cached_tokens is not None


def _points(pairs: Iterable[tuple[int, float]]) -> list[Point]:
    """Medians of prompts of about the same length."""
    alike = defaultdict(list)
    for tokens, milliseconds in pairs:
        alike[round(10 * math.log(tokens + 1))].append((tokens, milliseconds))
    return [
        Point(median(tokens for tokens, _ in group), median(ms for _, ms in group), min(len(group), _MOST_WEIGHT))
        for group in alike.values()
    ]
