"""A figure that is not known for sure, because it is told from some runs and not from all that there could be."""

from __future__ import annotations

import msgspec


class Estimate(msgspec.Struct, frozen=True):
    """A value, and between which two the true one lies, as surely as whoever made it says."""

    value: float
    low: float
    high: float
