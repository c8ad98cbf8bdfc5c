"""Requests of one kind in a few numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf
from statistics import median

import msgspec

from hotloop.lab.probing.samples import Sample
from hotloop.trace.stats import percentile

_STRAGGLES = 3  # times the usual time


class Percentiles(msgspec.Struct, frozen=True):
    """Nearest-rank percentiles in milliseconds."""

    p50: float
    p95: float
    p99: float


class Summary(msgspec.Struct, frozen=True):
    """What these requests were; None where no request gave a value.

    In `adjusted` percentiles a failed request counts as infinitely slow; `failures` is how many times each error was
    met. `buffered` replies came all at once, `stragglers` took more than three times as long as usual, to the first
    token or for each. `jitter` is how much the gaps between tokens differ, as a share of the usual one.
    """

    requests: int
    complete: int
    ttft: Percentiles | None
    tpot: Percentiles | None
    end_to_end: Percentiles | None
    adjusted_ttft: Percentiles | None
    adjusted_end_to_end: Percentiles | None
    output_tokens: int
    buffered: int
    stragglers: int
    jitter: float | None
    failures: dict[str, int]


def summary(samples: Sequence[Sample]) -> Summary:
    """These requests in a few numbers."""
    complete = [sample for sample in samples if not sample.error]
    lost = [inf] * (len(samples) - len(complete))
    ttft = [sample.ttft_ms for sample in complete if sample.ttft_ms is not None]
    tpot = [sample.tpot_ms for sample in complete if sample.tpot_ms is not None]
    end_to_end = [sample.end_to_end_ms for sample in complete]
    jitter = [sample.jitter for sample in complete if sample.jitter is not None]
    return Summary(
        requests=len(samples),
        complete=len(complete),
        ttft=_percentiles(ttft),
        tpot=_percentiles(tpot),
        end_to_end=_percentiles(end_to_end),
        adjusted_ttft=_percentiles([*ttft, *lost]),
        adjusted_end_to_end=_percentiles([*end_to_end, *lost]),
        output_tokens=sum(sample.output_tokens or 0 for sample in complete),
        buffered=sum(sample.buffered for sample in complete),
        stragglers=_stragglers(complete),
        jitter=median(jitter) if jitter else None,
        failures=dict(Counter(sample.error for sample in samples if sample.error)),
    )


def _stragglers(complete: Sequence[Sample]) -> int:
    slow: set[int] = set()
    for times in ([each.ttft_ms for each in complete], [each.tpot_ms for each in complete]):
        known = [time for time in times if time is not None]
        usual = median(known) if known else inf
        slow |= {place for place, time in enumerate(times) if time is not None and time > _STRAGGLES * usual}
    return len(slow)


def _percentiles(values: Sequence[float]) -> Percentiles | None:
    return Percentiles(*(percentile(values, percent) for percent in (50, 95, 99))) if values else None
