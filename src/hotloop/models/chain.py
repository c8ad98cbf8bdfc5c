"""Models in order of preference: the next is asked when the one before it failed, or gave a reply that does not do."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from hotloop.errors import ModelError
from hotloop.models.ask import Ask, Thinker
from hotloop.models.dialects import Dialect
from hotloop.models.rejection import Judged, Predicate, first_fault, note_doubt
from hotloop.models.reply import Reply
from hotloop.trace.ledger import Ledger, Why

_log = logging.getLogger("hotloop.models")


class Chain:
    """`thinkers` in order. `reject` are predicates that say why a reply does not do, "" if it does.

    What was rejected stays so: if all that are asked afterwards fail, the last error is raised. Only the last one's
    reply is taken whatever it is, for a reply that is there is better than an error that would have to be made up.
    """

    def __init__(self, thinkers: Sequence[Thinker], reject: Sequence[Predicate] = ()) -> None:
        *self._others, self._last = thinkers
        self._reject = reject

    @property
    def dialect(self) -> Dialect:
        """See `Thinker`."""
        return (self._others or [self._last])[0].dialect

    async def think(self, ask: Ask, why: Why = "first") -> Reply:
        """See `Thinker`. What is wrong with the last one's reply is noted in its attempt."""
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
                reason = first_fault(self._reject, reply)
                if not reason:
                    judged.accept()
                    return reply
                await judged.reject(reason)
            why = "fallback"
            before.append(f"{_asked(ask.ledger)}: {reason}")
            _log.warning("Instead of %s the next model is asked. %s", _asked(ask.ledger), reason)
        try:
            reply = await self._last.think(ask, why)
        except ModelError as error:
            error.add_note("Asked before: " + "; ".join(before))
            raise
        if reason := first_fault(self._reject, reply):
            note_doubt(ask.ledger, reason)
        return reply


def _asked(ledger: Ledger) -> str:
    """Who was asked last."""
    last = ledger.attempts[-1]
    return f"{last.model} at {last.service}"
