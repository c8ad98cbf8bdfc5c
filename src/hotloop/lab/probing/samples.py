"""What one request was, and how fast replies were written while nothing else changed, from what was heard."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

import msgspec

from hotloop.errors import ServiceError
from hotloop.lab.probing.asking import Answer
from hotloop.lab.probing.owntimes import OwnTimes
from hotloop.lab.probing.texts import ProbePrompt
from hotloop.trace.pace import is_buffered, time_per_token
from hotloop.units import NS_PER_MS, ms

_ENOUGH = 8  # reads from which a speed can be told
_SIGMA = 1.4826  # a normal distribution's standard deviation in median absolute deviations


class Sample(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request; times in milliseconds, None where there is none. `error` is "" for a complete reply.

    It was asked `asked_ms` after its cell had begun, in its `wave`, while `others` were running; `beside` tells that it
    came beside the wave. `counted` tells that the service has counted `prompt_tokens`, which else are a guess, and
    `shared_tokens` how many of them it had been sent before. `jitter` is how much the gaps between tokens differ, as a
    share of the usual one; `own` are the service's own times, `retry_after` (seconds) its wish.
    """

    end_to_end_ms: float
    asked_ms: float = 0.0
    wave: int = 0
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    prompt_tokens: int = 0
    counted: bool = False
    cached_tokens: int | None = None
    shared_tokens: int = 0
    output_tokens: int | None = None
    others: int = 0
    beside: bool = False
    buffered: bool = False
    jitter: float | None = None
    own: OwnTimes | None = None
    error: str = ""
    retry_after: float | None = None


class Prefill(NamedTuple):
    """A prompt that the service had read in `ended_ms` after a stretch began, as far as it was not cached."""

    ended_ms: float
    tokens: int


class Stretch(msgspec.Struct, frozen=True):
    """A part of one reply in which the same number of `replies` was being decoded: `tokens` in `spent_ms`.

    `prefills` are the prompts that were read meanwhile, and the next one.
    """

    replies: int
    spent_ms: float
    tokens: float
    prefills: list[Prefill] = []


class Place(NamedTuple):
    """Where a request stands in its cell, which began at `since` (nanoseconds)."""

    since: int
    wave: int = 0
    others: int = 0
    beside: bool = False


def sample_of(answer: Answer, prompt: ProbePrompt, place: Place) -> Sample:
    """One request as a sample."""
    end_to_end_ms, asked_ms = ms(answer.ended - answer.asked), ms(answer.asked - place.since)
    where: dict[str, Any] = {"asked_ms": asked_ms, "wave": place.wave, "others": place.others, "beside": place.beside}
    if answer.reply is None:
        told = f"{type(answer.error).__name__}: {answer.error}"
        wished = answer.error.retry_after if isinstance(answer.error, ServiceError) else None
        return Sample(end_to_end_ms, error=told, retry_after=wished, **where)
    usage, reads = answer.reply.usage, answer.tokens
    pieces = sum(count for _, count in reads)
    tokens = pieces if usage.output_tokens is None else usage.output_tokens
    spread = reads[-1][0] - reads[0][0] if reads else 0
    tpot = time_per_token(tokens, len(reads), spread)
    return Sample(
        end_to_end_ms,
        ttft_ms=ms(reads[0][0] - answer.asked) if reads else None,
        tpot_ms=None if tpot is None else ms(tpot),
        prompt_tokens=prompt.tokens if usage.input_tokens is None else usage.input_tokens,
        counted=usage.input_tokens is not None,
        cached_tokens=usage.cached_tokens,
        shared_tokens=prompt.shared,
        output_tokens=usage.output_tokens,
        buffered=is_buffered(tokens, len(reads), spread),
        jitter=None if tpot is None else _jitter(reads),
        own=answer.own,
        **where,
    )


Heeded = Sequence[tuple[Answer, Sample]]


def stretches(wave: Heeded, beside: Heeded = ()) -> Iterator[Stretch]:
    """The stretches of the replies of a wave; `beside` are the requests that came meanwhile.

    A reply's first token is left out: the next one waits for the step that the service is in the middle of.
    """
    decoded = [answer for answer, sample in wave if sample.tpot_ms is not None]
    prefills = sorted((answer.tokens[0][0], _read_in(each)) for answer, each in [*wave, *beside] if answer.tokens)
    starts = sorted(answer.tokens[0][0] for answer in decoded)
    ends = sorted(answer.tokens[-1][0] for answer in decoded)
    cuts = sorted({*starts, *ends})
    for begin, end in pairwise(cuts):
        replies = bisect_right(starts, begin) - bisect_right(ends, begin)
        for answer in decoded:
            if answer.tokens[0][0] <= begin and end <= answer.tokens[-1][0]:
                yield from _stretch(answer, begin, end, replies, prefills)


def _stretch(
    answer: Answer, begin: int, end: int, replies: int, prefills: Sequence[tuple[int, int]]
) -> Iterator[Stretch]:
    reads = answer.tokens[1:]
    first, last = bisect_left(reads, (begin, 0)), bisect_right(reads, (end, 1 << 30)) - 1
    if last - first >= _ENOUGH:
        tokens = sum(count for _, count in reads[first + 1 : last + 1]) * _tokens_a_piece(answer)
        since, until = reads[first][0], reads[last][0]
        after = bisect_right(prefills, (until, 0))  # the next one may have begun before
        around = [Prefill((at - since) / NS_PER_MS, read) for at, read in prefills[: after + 1] if at > since]
        yield Stretch(replies, (until - since) / NS_PER_MS, tokens, around)


def _read_in(sample: Sample) -> int:
    return sample.prompt_tokens - (sample.cached_tokens or 0)


def _tokens_a_piece(answer: Answer) -> float:
    """Some services send several tokens in a piece."""
    pieces = sum(count for _, count in answer.tokens)
    written = answer.reply.usage.output_tokens if answer.reply is not None else None
    return (written - 1) / (pieces - 1) if written and written > 1 and pieces > 1 else 1.0


def _jitter(reads: Sequence[tuple[int, int]]) -> float | None:
    gaps = [(at - before) / count for (before, _), (at, count) in pairwise(reads)]
    usual = median(gaps)
    return _SIGMA * median(abs(gap - usual) for gap in gaps) / usual if len(gaps) >= _ENOUGH and usual else None
