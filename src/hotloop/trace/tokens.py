"""The tokens of a run: those of all its requests, as far as services have counted them, which is what they bill.

So rejected replies, prompts that were only read, summaries, and requests that failed or lost after their tokens were
told count as good replies do; whoever tells of a run's tokens or their cost adds up the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import astuple

from hotloop.trace.ledger import AttemptFacts, Usage

ANSWERED = frozenset(("ok", "rejected"))
"""What came of requests that were answered."""

_UNKNOWN = Usage()


def is_counted(request: AttemptFacts) -> bool:
    """Whether a request is one whose tokens count, known or not: it was answered, or its service told any of it."""
    return request.outcome in ANSWERED or request.usage != _UNKNOWN


def total_usage(requests: Iterable[AttemptFacts]) -> Usage:
    """The tokens of these requests, as far as they are known; None for a count that is known of none."""
    return added(each.usage for each in requests)


def added(usages: Iterable[Usage]) -> Usage:
    """These tokens together, as far as they are known."""
    return Usage(*map(_known, zip(*map(astuple, usages), strict=True)))


def whole_sum(values: Iterable[float | None]) -> float | None:
    """The sum, None if one of the values is not known."""
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _known(counts: tuple[int | None, ...]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
