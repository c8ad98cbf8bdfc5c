"""What an agent says of prefetch."""

from __future__ import annotations

import msgspec

from hotloop.fields import Count, SomeShare, Text, check_fields


class Prefetch(msgspec.Struct, frozen=True, kw_only=True):
    """Read-only calls that tend to come next are begun while the model is thinking; see docs/prefetch.md.

    `confidence` is the least share of calls that must be asked for, as far as is known (a lower bound, not the mean);
    `max_inflight` is how many a run may have under way at once. What was learned is kept in the file at `path` (None:
    the usual one in the user's state folder).

    Raises ConfigError for values that cannot be.
    """

    confidence: SomeShare = 0.6
    max_inflight: Count = 2
    path: Text | None = None

    def __post_init__(self) -> None:
        check_fields(Prefetch, msgspec.structs.asdict(self), "Prefetch")
