"""Models in order of preference: the next is asked when the one before it failed, or gave a reply that does not do."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from hotloop.errors import ModelError
from hotloop.models.ask import Ask, Thinker
from hotloop.models.dialects import Dialect
from hotloop.models.rejection import Judged, Predicate
from hotloop.models.reply import Reply
from hotloop.trace.ledger import Ledger, Why

_log = logging.getLogger("hotloop.models")


class Chain:
    """`thinkers` in order. `reject` are predicates that say why a reply does not do, "" if it does."""

    def __init__(self, thinkers: Sequence[Thinker], reject: Sequence[Predicate] = ()) -> None:
        *self._others, self._last = thinkers
        self._reject = reject

    @property
    def dialect(self) -> Dialect:
        """See `Thinker`."""
        return (self._others or [self._last])[0].dialect

    async def think(self, ask: Ask, why: Why = "first") -> Reply:
        """See `Thinker`. The last one's reply is taken as it is."""
        before: list[str] = []
        for thinker in self._others:
            judged = Judged(ask)
            try:
                reply = await thinker.think(judged.ask, why)
            except ModelError as error:
                if ask.deadline.remaining_ns(ask.ledger.clock()) == 0:
                    raise
                reason = str(error)
                judged.withdraw(reason)
            else:
                reason = next((wrong for each in self._reject if (wrong := each(reply))), "")
                if not reason:
                    judged.accept()
                    return reply
                await judged.reject(reason)
            why = "fallback"
            before.append(f"{_asked(ask.ledger)}: {reason}")
            _log.warning("Instead of %s the next model is asked. %s", _asked(ask.ledger), reason)
        try:
            return await self._last.think(ask, why)
        except ModelError as error:
            error.add_note("Asked before: " + "; ".join(before))
            raise


def _asked(ledger: Ledger) -> str:
    """Who was asked last."""
    last = ledger.attempts[-1]
    return f"{last.model} at {last.service}"
