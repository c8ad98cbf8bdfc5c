"""What comes after the first token, from measurements: how fast replies are written, together and beside prefills."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

from hotloop.lab.probing.curves import Coefficients, Point, fit_curve, fit_powers, slope_of, value
from hotloop.lab.probing.reading import spread
from hotloop.lab.probing.samples import Sample, Stretch
from hotloop.lab.profiles import Kind

_MOST_WEIGHT = 300.0
_MUCH = 0.2  # of a stretch that goes on beside prefills, from which interference can be told
_NOISE = 0.1  # what is less is none
_ENOUGH = 8  # tokens
_ROUNDS = 2  # the curve needs the interference, and that the curve
_SIGMAS = 2.5  # standard errors within which a slope is
_LOAD, _FLAT = 100, 0.1  # replies that are no slower than one alone if so many at once are slower by less than this


class Decoding(NamedTuple):
    """Milliseconds per token, and the share of its speed that decoding loses while a prompt is read.

    `told` is whether the measurements can tell if replies slow each other down.
    """

    tpot: Coefficients
    interference: float
    told: bool


def tpot_points(stretches: Iterable[Stretch], reading: float, interference: float) -> list[Point]:
    """Milliseconds per token by how many replies were being decoded, without what prefills took of them."""
    speeds: dict[int, list[float]] = defaultdict(list)
    tokens: dict[int, float] = defaultdict(float)
    for stretch in stretches:
        own = stretch.spent_ms - interference * beside_ms(stretch, reading)
        speeds[stretch.replies].append(own / stretch.tokens)
        tokens[stretch.replies] += stretch.tokens
    return [
        Point(replies, usual, min(tokens[replies] / replies, _MOST_WEIGHT))
        for replies, each in speeds.items()
        if (usual := median(each)) > 0
    ]


def told_point(steady: Iterable[Sample]) -> list[Point]:
    """Milliseconds per token of replies that were alone, as the service tells them."""
    told = [
        sample.own.decode_ms / (sample.output_tokens - 1)
        for sample in steady
        if sample.own and sample.own.decode_ms and sample.output_tokens and sample.output_tokens >= _ENOUGH
    ]
    return [Point(1, median(told), _MOST_WEIGHT)] if told else []


def decoding(
    steady: Sequence[Sample],
    quiet: Sequence[Stretch],
    disturbed: Sequence[Stretch],
    reading: float,
    slots: int | None = None,
) -> Decoding:
    """How replies are written, alone and together; never more than `slots` of them, if there is such a limit."""
    own, noise = told_point(steady), _step_noise(steady)

    def curve(interference: float) -> tuple[Coefficients, bool]:
        seen = tpot_points(quiet, reading, interference)
        return _growth([*own, *(point for point in seen if point.x > 1 or not own)], noise, slots)

    interference, (tpot, told) = 0.0, curve(0.0)
    for _ in range(_ROUNDS):
        interference = _interference(disturbed, tpot, reading)
        tpot, told = curve(interference)
    return Decoding(tpot, interference, told or interference > 0)


def beside_ms(stretch: Stretch, reading: float) -> float:
    """How long prompts were being read during this stretch."""
    spans = ((each.ended_ms - reading * each.tokens, each.ended_ms) for each in stretch.prefills)
    overlaps = (min(end, stretch.spent_ms) - max(begin, 0.0) for begin, end in spans)
    return min(sum(overlap for overlap in overlaps if overlap > 0), stretch.spent_ms)


def decode_sigma(steady: Iterable[Sample], kind: Kind) -> float:
    """How much steps differ on a GPU, and replies on an LPU, as the sigma of a lognormal distribution."""
    if kind == "lpu":
        return spread([sample.tpot_ms for sample in steady if sample.tpot_ms])
    within = [sample.jitter for sample in steady if sample.jitter is not None]
    return min(median(within), 1.0) if within else 0.0


def _growth(points: Sequence[Point], noise: float, slots: int | None) -> tuple[Coefficients, bool]:
    """The curve through these points, and whether its slope, or that it has none, is more than noise."""
    found = fit_curve(points, noise)
    if found[1] or found[2]:
        return found, True
    rise, error = slope_of(points, noise)
    more = min(slots or _LOAD, _LOAD) - 1
    if not more or more * (rise + _SIGMAS * error) < _FLAT:
        return found, True
    return found | fit_powers(points, (0, 1)), rise > _SIGMAS * error


def _step_noise(steady: Sequence[Sample]) -> float:
    """How much one token's time differs from another's, as far as whole replies differ, too."""
    tokens = [sample.output_tokens for sample in steady if sample.tpot_ms and sample.output_tokens]
    whole = decode_sigma(steady, "lpu") * median(tokens) ** 0.5 if tokens else 0.0
    return max(decode_sigma(steady, "gpu"), whole)


def _interference(disturbed: Iterable[Stretch], tpot: Coefficients, reading: float) -> float:
    lost = []
    for stretch in disturbed:
        beside = beside_ms(stretch, reading)
        if beside > _MUCH * stretch.spent_ms:
            lost.append((stretch.spent_ms - stretch.tokens * value(tpot, stretch.replies)) / beside)
    share = min(median(lost), 1.0) if lost else 0.0
    return share if share > _NOISE else 0.0
