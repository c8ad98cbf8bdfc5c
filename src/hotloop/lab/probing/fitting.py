"""Fits a profile to what was measured: to medians of each kind of request, so that stragglers do not move it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from hotloop.errors import HotloopError
from hotloop.lab.probing.confidence import Deviation, Looked, confidence, deviation
from hotloop.lab.probing.curves import Coefficients, fit_curve
from hotloop.lab.probing.decoding import beside_ms, decode_sigma, decoding
from hotloop.lab.probing.measuring import Measured
from hotloop.lab.probing.plan import Kind
from hotloop.lab.probing.reading import cache_block, front_points, is_known, ms_per_prompt_token, queue_sigma, rtt_ms
from hotloop.lab.probing.samples import Sample, Stretch
from hotloop.lab.probing.slots import most_at_once, queue_of, slots_of
from hotloop.lab.profiles import Curve, Granularity, Profile

_ALONE: tuple[Kind, ...] = ("steady", "cold", "cached", "turns")


class CannotFit(HotloopError):
    """What was measured is not enough for a profile."""


class Fit(msgspec.Struct, frozen=True):
    """A profile, and how far its predictions of "ttft", "tpot" and "reply" are from what it was fitted to.

    `looked` is how far that went; beyond it the profile is a guess.
    """

    profile: Profile
    looked: Looked
    deviations: dict[str, Deviation]


class Known(msgspec.Struct, frozen=True):
    """What a profile says beside times."""

    name: str
    source: str = ""
    dialect: str = "generic"
    granularity: Granularity = "token"


def fit(found: Sequence[Measured], known: Known) -> Fit:
    """The profile that what was measured is like. Raises CannotFit."""
    profile, kind_told = _profile(found, known)
    looked = Looked(len(_samples(found, "steady")), most_at_once(found), kind_told, limit=profile.slots is not None)
    deviations = {
        name: apart
        for name, pairs in (
            ("ttft", _firsts(found, profile)),
            ("tpot", _speeds(found, profile)),
            ("reply", _replies(found, profile)),
        )
        if (apart := deviation(pairs))
    }
    errors = {name: _short(each.median) for name, each in deviations.items()}
    told = msgspec.structs.replace(profile, confidence=confidence(deviations, looked), fit_error=errors)
    return Fit(told, looked, deviations)


def _profile(found: Sequence[Measured], known: Known) -> tuple[Profile, bool]:
    """The profile without what it is worth, and whether its kind can be told from what was measured."""
    alone, steady = _samples(found, *_ALONE), _samples(found, "steady")
    if not any(map(is_known, alone)):
        raise CannotFit("No new prompt that came alone had a complete, streamed reply; a profile cannot be fitted.")
    reading, slots = ms_per_prompt_token(alone), slots_of(found)
    rtt = rtt_ms(alone)
    queue_noise = queue_sigma(steady, reading, rtt)
    front = fit_curve(front_points([*alone, *_beside(found, slots)], reading), queue_noise)
    quiet, disturbed = _stretches(found, "steady", "at once"), _stretches(found, "beside")
    tpot, interference, kind_told = decoding(steady, quiet, disturbed, reading, slots)
    if not tpot[0] and not tpot[1]:
        raise CannotFit("No reply was long enough to tell how fast tokens come; a profile cannot be fitted.")
    rtt = min(rtt, front[0])
    kind: Literal["gpu", "lpu"] = "gpu" if tpot[1] or tpot[2] or interference else "lpu"
    profile = Profile(
        name=known.name,
        kind=kind,
        base_ms=_short(front[0] - rtt),
        per_prompt_token_ms=_short(reading),
        tpot_ms=_curve(tpot),
        wait_ms=_curve(front | {0: 0.0}),
        interference=_short(interference),
        slots=slots,
        queue=queue_of(found, slots),
        queue_sigma=_short(queue_noise),
        decode_sigma=_short(decode_sigma(steady, kind)),
        cache_block=cache_block(alone, reading, front[0]),
        dialect=known.dialect,
        reports=any(sample.own or sample.cached_tokens is not None for sample in alone),
        granularity=known.granularity,
        rtt_ms=_short(rtt),
        source=known.source,
    )
    return profile, kind_told


def _samples(found: Iterable[Measured], *kinds: Kind) -> list[Sample]:
    """The complete and streamed replies of cells of these kinds."""
    cells = (measured.complete for measured in found if measured.cell.kind in kinds)
    return [sample for cell in cells for sample in cell if sample.ttft_ms is not None and not sample.buffered]


def _beside(found: Iterable[Measured], slots: int | None) -> list[Sample]:
    """The requests that came one by one beside others, and found a slot."""
    return [
        sample
        for sample in _samples(found, "at once", "beside")
        if sample.beside and (slots is None or sample.others < slots)
    ]


def _stretches(found: Iterable[Measured], *kinds: Kind) -> list[Stretch]:
    return [stretch for measured in found if measured.cell.kind in kinds for stretch in measured.stretches]


def _firsts(found: Sequence[Measured], profile: Profile) -> Iterator[tuple[float, float]]:
    """Times to the first token, predicted and measured."""
    for sample in [*_samples(found, *_ALONE), *_beside(found, profile.slots)]:
        assert sample.ttft_ms is not None
        yield (
            profile.ttft_ms(sample.prompt_tokens, cached=_cached(sample, profile), others=sample.others),
            sample.ttft_ms,
        )


def _speeds(found: Sequence[Measured], profile: Profile) -> Iterator[tuple[float, float]]:
    """Times of stretches, predicted and measured."""
    for stretch in _stretches(found, "steady", "at once", "beside"):
        lost = profile.interference * beside_ms(stretch, profile.per_prompt_token_ms)
        yield stretch.tokens * profile.tpot_ms.at(stretch.replies) + lost, stretch.spent_ms


def _replies(found: Sequence[Measured], profile: Profile) -> Iterator[tuple[float, float]]:
    """Times of whole replies that were alone, predicted and measured."""
    for sample in _samples(found, *_ALONE):
        if sample.output_tokens:
            cached = _cached(sample, profile)
            yield profile.reply_ms(sample.prompt_tokens, sample.output_tokens, cached=cached), sample.end_to_end_ms


def _cached(sample: Sample, profile: Profile) -> int:
    if sample.cached_tokens is not None:
        return sample.cached_tokens
    block = profile.cache_block
    return sample.shared_tokens // block * block if block else 0


def _curve(found: Coefficients) -> Curve:
    return Curve(_short(found[0]), _short(found[1]), _short(found[2]))


def _short(number: float) -> float:
    """Four digits that matter, and nothing below a nanosecond."""
    return float(f"{round(number, 6):.4g}") + 0.0  # and no minus before a zero
