"""Complete replies that may not do: judged before the reader is told that they are complete, and taken back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from hotloop.events import Event, ReplyFinished, Reset, Retrying
from hotloop.models.ask import Ask
from hotloop.models.refusal import is_refusal
from hotloop.models.reply import Reply
from hotloop.models.transport import Emit, Throttle
from hotloop.trace.ledger import AttemptFacts

Predicate = Callable[[Reply], str]


def empty_answer(reply: Reply) -> str:
    """A reply with neither text nor calls."""
    return "" if reply.calls or reply.text.strip() else "the answer is empty"


def refused_tool(reply: Reply) -> str:
    """A reply without calls that begins with a refusal, to help or to do what tools are there for."""
    return "it refused to use its tools" if not reply.calls and is_refusal(reply.text) else ""


class Judged:
    """One reply that may yet be taken back: its `ask` tells events on, except that the reply is complete."""

    def __init__(self, ask: Ask) -> None:
        self._emit: Emit = ask.emit
        self._finished: list[Event] = []
        self._told = False
        self.ask = msgspec.structs.replace(ask, emit=self._hold, others=True)

    def accept(self) -> None:
        """The reply stands."""
        if self._finished:
            self._emit(self._finished)

    async def reject(self, reason: str) -> None:
        """Take the reply back, its calls and its facts too; the ledger keeps the attempt, and why it did not do."""
        ask = self.ask
        attempts, facts = ask.ledger.attempts, ask.ledger.turns.pop()
        place = _place_of_reply(attempts)
        attempts[place] = msgspec.structs.replace(attempts[place], outcome="rejected", reason=reason, usage=facts.usage)
        if ask.listener is not None:
            await ask.listener.discard()
        self.withdraw(reason)

    def withdraw(self, reason: str) -> None:
        """Whatever was told of it no longer holds."""
        if self._told:
            self._emit([Reset(reason)])

    def _hold(self, events: Sequence[Event], throttle: Throttle | None = None) -> None:
        if isinstance(events[-1], ReplyFinished):
            self._finished, events = [events[-1]], events[:-1]
        if events:
            self._told = not isinstance(events[-1], Retrying)  # which comes after a reset of its own
            self._emit(events, throttle)


def _place_of_reply(attempts: list[AttemptFacts]) -> int:
    """Which attempt gave the newest reply: what it won against may have been noted after it."""
    replied = [
        place for place, each in enumerate(attempts) if each.outcome in ("ok", "failed") and each.why != "prefill"
    ]
    return replied[-1]
