"""What comes after the first token, from measurements: how fast replies are written, together and beside prefills."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median

from hotloop.lab.probing.curves import Coefficients, Point, fit_curve, value
from hotloop.lab.probing.reading import spread
from hotloop.lab.probing.samples import Sample, Stretch
from hotloop.lab.profiles import Kind

_MOST_WEIGHT = 300.0
_MUCH = 0.2  # of a stretch that goes on beside prefills, from which interference can be told
_NOISE = 0.1  # what is less is none
_ENOUGH = 8  # tokens
_ROUNDS = 2  # the curve needs the interference, and that the curve


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
    steady: Sequence[Sample], quiet: Sequence[Stretch], disturbed: Sequence[Stretch], reading: float
) -> tuple[Coefficients, float]:
    """How milliseconds per token grow with the replies, and which share of its speed decoding loses to a prefill."""
    told, noise = told_point(steady), decode_sigma(steady, "gpu")

    def curve(interference: float) -> Coefficients:
        seen = tpot_points(quiet, reading, interference)
        return fit_curve([*told, *(point for point in seen if point.x > 1 or not told)], noise)

    interference, tpot = 0.0, curve(0.0)
    for _ in range(_ROUNDS):
        interference = _interference(disturbed, tpot, reading)
        tpot = curve(interference)
    return tpot, interference


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


def _interference(disturbed: Iterable[Stretch], tpot: Coefficients, reading: float) -> float:
    lost = []
    for stretch in disturbed:
        beside = beside_ms(stretch, reading)
        if beside > _MUCH * stretch.spent_ms:
            lost.append((stretch.spent_ms - stretch.tokens * value(tpot, stretch.replies)) / beside)
    share = min(median(lost), 1.0) if lost else 0.0
    return share if share > _NOISE else 0.0
