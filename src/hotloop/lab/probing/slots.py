"""How many replies a service works on at once, and how many requests it lets wait, from waves of requests."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from hotloop.lab.probing.measuring import Measured
from hotloop.lab.probing.samples import Sample

_SILENCE = 3  # times the usual gap between two first tokens
_BUSY = ("Overloaded", "RateLimited")


def slots_of(found: Sequence[Measured]) -> int | None:
    """How many replies run at once at most; None if all of every wave did."""
    limits = Counter(limit for wave in _waves(found) if (limit := _limit(wave)))
    return limits.most_common(1)[0][0] if limits else None


def most_at_once(found: Sequence[Measured]) -> int:
    """How many requests of one wave were answered at most; 1 if there was no wave."""
    answered = (sum(not sample.error for sample in wave) for wave in _waves(found))
    return max(answered, default=1) or 1


def queue_of(found: Sequence[Measured], slots: int | None) -> int | None:
    """How many requests more may wait before one is refused; None if none was, or it cannot be told."""
    full = [wave for wave in _waves(found) if any(sample.error.startswith(_BUSY) for sample in wave)]
    if slots is None or not full:
        return None
    return max(0, min(sum(not sample.error for sample in wave) for wave in full) - slots)


def _limit(wave: Sequence[Sample]) -> int | None:
    """How many had begun when the first ended, if others had waited for it: nothing began for a while, then one did.

    Without a limit first tokens come one by one as prompts are read, whatever ends meanwhile.
    """
    spans = sorted(
        (sample.asked_ms + sample.ttft_ms, sample.asked_ms + sample.end_to_end_ms)
        for sample in wave
        if sample.ttft_ms is not None and not sample.buffered
    )
    if not spans:
        return None
    first_end = min(end for _, end in spans)
    begun = [start for start, _ in spans if start < first_end]
    if len(begun) == len(spans):
        return None
    usual_gap = (begun[-1] - begun[0]) / max(len(begun) - 1, 1)
    return len(begun) if first_end - begun[-1] > _SILENCE * usual_gap else None


def _waves(found: Sequence[Measured]) -> Iterator[list[Sample]]:
    for measured in found:
        if measured.cell.kind == "at once":
            waves: dict[int, list[Sample]] = defaultdict(list)
            for sample in measured.samples:
                if not sample.beside:
                    waves[sample.wave].append(sample)
            yield from waves.values()
