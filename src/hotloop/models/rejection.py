"""Complete replies that may not do: judged before the reader is told that they are complete, and taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from hotloop.events import Event, ReplyFinished, Reset, Retrying
from hotloop.models.ask import Ask
from hotloop.models.refusal import is_refusal
from hotloop.models.reply import Reply
from hotloop.models.transport import Emit, Throttle
from hotloop.trace.ledger import AttemptFacts, Ledger, TurnFacts

Predicate = Callable[[Reply], str]


def empty_answer(reply: Reply) -> str:
    """A reply with neither text nor calls."""
    return "" if reply.calls or reply.text.strip() else "the answer is empty"


def refused_tool(reply: Reply) -> str:
    """A reply without calls that begins with a refusal, to help or to do what tools are there for."""
    return "it refuses to help" if not reply.calls and is_refusal(reply.text) else ""


def first_fault(predicates: Iterable[Predicate], reply: Reply) -> str:
    """The first reason why a reply does not do, "" if it does."""
    return next((wrong for predicate in predicates if (wrong := predicate(reply))), "")


def note_doubt(ledger: Ledger, reason: str) -> None:
    """Of the newest reply, which was taken: what is wrong with it."""
    attempts = ledger.attempts
    place = _place_of_reply(attempts)
    attempts[place] = msgspec.structs.replace(attempts[place], reason=reason)


class Judged:
    """One reply that may yet be taken back: its `ask` tells events on, except that the reply is complete.

    `others` tells whether somebody else can be asked after it.
    """

    def __init__(self, ask: Ask, *, others: bool = True) -> None:
        self._emit: Emit = ask.emit
        self._shown: list[Event] = []
        self._finished: list[Event] = []
        self._told = False
        self._taken_back: tuple[int, TurnFacts] | None = None
        self.ask = msgspec.structs.replace(ask, emit=self._hold, others=others)

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
        self._taken_back = place, facts
        if ask.listener is not None:
            await ask.listener.discard()
        self.withdraw(reason)

    def restore(self) -> None:
        """A reply that was rejected stands after all, for there is none better: it is told once more."""
        assert self._taken_back is not None
        place, facts = self._taken_back
        ledger = self.ask.ledger
        ledger.attempts[place] = msgspec.structs.replace(ledger.attempts[place], outcome="ok")
        ledger.turns.append(facts)
        self._emit([*_since_reset(self._shown), *self._finished])

    def withdraw(self, reason: str) -> None:
        """Whatever was told of it no longer holds."""
        if self._told:
            self._emit([Reset(reason)])

    def _hold(self, events: Sequence[Event], throttle: Throttle | None = None) -> None:
        if isinstance(events[-1], ReplyFinished):
            self._finished, events = [events[-1]], events[:-1]
        if events:
            self._told = not isinstance(events[-1], Retrying)  # which comes after a reset of its own
            self._shown += events
            self._emit(events, throttle)


def _since_reset(events: list[Event]) -> list[Event]:
    """Those of the reply that came in the end, without those of tries before it."""
    resets = [place for place, event in enumerate(events) if isinstance(event, Reset | Retrying)]
    return events[resets[-1] + 1 :] if resets else events


def _place_of_reply(attempts: list[AttemptFacts]) -> int:
    """Which attempt gave the newest reply: what it won against may have been noted after it."""
    replied = [
        place for place, each in enumerate(attempts) if each.outcome in ("ok", "failed") and each.why != "prefill"
    ]
    return replied[-1]
