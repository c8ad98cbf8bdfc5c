"""Measure a model service: how long until the first token, between tokens, and to the end of a reply.

Requests go through the same agent, transport and parser as any run, without retries. TTFT is the first token (text,
reasoning or call fragment) minus the start of the request; TPOT is (last token - first token) / (tokens - 1), and is
left out where all tokens came at once; end to end counts from the moment the request was due. In `adjusted`
percentiles a failed request counts as infinitely slow.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from math import inf
from typing import Any

import msgspec

from hotloop.agent import Agent
from hotloop.errors import HotloopError
from hotloop.models.transport import Transport
from hotloop.trace.stats import percentile
from hotloop.units import clock, ms

PROMPT = "Count from one to fifty in words, separated by spaces."


class Sample(msgspec.Struct, frozen=True):
    """One request; times in milliseconds, None where there is none. `error` is "" for a complete reply."""

    end_to_end_ms: float
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    buffered: bool = False
    error: str = ""


class Percentiles(msgspec.Struct, frozen=True):
    """Nearest-rank percentiles in milliseconds."""

    p50: float
    p95: float
    p99: float


class ProbeReport(msgspec.Struct, frozen=True):
    """What a probe found. A spread is None when no request gave a value for it.

    `warm_ms` is what opening the connections took (None: not known), `buffered` the number of replies
    whose tokens came all at once, `failures` the number of times each error was met.
    """

    samples: list[Sample]
    warm_ms: float | None
    ttft: Percentiles | None
    tpot: Percentiles | None
    end_to_end: Percentiles | None
    adjusted_ttft: Percentiles | None
    adjusted_end_to_end: Percentiles | None
    output_tokens: int
    buffered: int
    failures: dict[str, int]


async def probe(
    endpoint: str | Transport,
    model: str,
    *,
    prompt: str = PROMPT,
    requests: int = 20,
    concurrency: int = 1,
    on_sample: Callable[[Sample], None] | None = None,
    **options: Any,
) -> ProbeReport:
    """Send `requests` requests, `concurrency` at a time, each as soon as one before it has ended.

    `on_sample` is called after each; `options` are further arguments of `Agent`, such as `max_tokens` and `api_key`.
    Raises ConfigError for an endpoint that cannot be one, and ConnectError when nobody answers there; a request that
    fails later is a sample with an error.
    """
    samples: list[Sample] = []
    async with Agent(model=model, endpoint=endpoint, retries=0, **options) as agent:
        now = clock()
        start = now()
        await agent.warm(concurrency)
        warm_ms = ms(now() - start)
        due = iter(range(requests))
        async with asyncio.TaskGroup() as workers:
            for _ in range(concurrency):
                workers.create_task(_work(agent, prompt, due, samples, on_sample))
    return report_of(samples, warm_ms)


async def _work(
    agent: Agent,
    prompt: str,
    due: Iterator[int],
    samples: list[Sample],
    on_sample: Callable[[Sample], None] | None,
) -> None:
    for _ in due:
        sample = await _ask(agent, prompt)
        samples.append(sample)
        if on_sample:
            on_sample(sample)


async def _ask(agent: Agent, prompt: str) -> Sample:
    now = clock()
    start = now()
    try:
        result = await agent.run(prompt)
    except HotloopError as error:
        return Sample(ms(now() - start), error=f"{type(error).__name__}: {error}")
    facts = result.trace.turns[-1]
    return Sample(
        end_to_end_ms=ms(now() - start),
        ttft_ms=None if facts.ttft is None else ms(facts.ttft),
        tpot_ms=None if facts.tpot is None else ms(facts.tpot),
        output_tokens=result.usage.output_tokens,
        cached_tokens=result.usage.cached_tokens,
        buffered=facts.buffered,
    )


def report_of(samples: list[Sample], warm_ms: float | None = None) -> ProbeReport:
    """What these samples say, also if more were to come."""
    complete = [sample for sample in samples if not sample.error]
    lost = [inf] * (len(samples) - len(complete))
    ttft = [sample.ttft_ms for sample in complete if sample.ttft_ms is not None]
    end_to_end = [sample.end_to_end_ms for sample in complete]
    return ProbeReport(
        samples=samples,
        warm_ms=warm_ms,
        ttft=_percentiles(ttft),
        tpot=_percentiles([sample.tpot_ms for sample in complete if sample.tpot_ms is not None]),
        end_to_end=_percentiles(end_to_end),
        adjusted_ttft=_percentiles([*ttft, *lost]),
        adjusted_end_to_end=_percentiles([*end_to_end, *lost]),
        output_tokens=sum(sample.output_tokens or 0 for sample in complete),
        buffered=sum(sample.buffered for sample in complete),
        failures=dict(Counter(sample.error for sample in samples if sample.error)),
    )


def _percentiles(values: list[float]) -> Percentiles | None:
    return Percentiles(*(percentile(values, percent) for percent in (50, 95, 99))) if values else None
