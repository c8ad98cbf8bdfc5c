"""Who thinks once a run has to save time, and who until then."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any

from hotloop.models.ask import Ask, Thinker
from hotloop.models.dialects import Dialect
from hotloop.models.reply import Reply
from hotloop.trace.ledger import Why


class SteppedThinker:
    """See `Thinker`. Asks `usual`, or who is for the step that the run has taken; history is kept as `usual` has it."""

    def __init__(self, usual: Thinker, steps: Mapping[int, Thinker]) -> None:
        self._usual = usual
        self._steps = steps

    @property
    def dialect(self) -> Dialect:
        """See `Thinker`."""
        return self._usual.dialect

    def think(self, ask: Ask, why: Why = "first") -> Coroutine[Any, Any, Reply]:
        """See `Thinker`."""
        thinker = self._usual if ask.step is None else self._steps[ask.step]
        return thinker.think(ask, why)
