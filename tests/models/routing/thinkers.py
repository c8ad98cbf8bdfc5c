"""Thinkers that say what a test gives them, as a client does: events, an attempt and facts of the turn."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from hotloop.budget import Budget, Deadline
from hotloop.events import Event, ReplyFinished, TextDelta
from hotloop.models.ask import Ask
from hotloop.models.dialects import DIALECTS
from hotloop.models.model import Model
from hotloop.models.reply import Reply
from hotloop.models.routing.router import Router
from hotloop.trace.ledger import AttemptFacts, Ledger, TurnFacts, Usage
from hotloop.units import clock

_numbers = itertools.count()


class FakeThinker:
    """Gives `replies` in turn, the last one for ever, each after `seconds`; exceptions are raised instead."""

    def __init__(self, *replies: Reply | Exception | str, seconds: float = 0.0) -> None:
        self.dialect = DIALECTS["generic"]
        self.whys: list[str] = []
        self._replies = [reply_of(each) if isinstance(each, str) else each for each in replies]
        self.seconds = seconds

    async def think(self, ask: Ask, why: Any = "first") -> Reply:
        self.whys.append(why)
        ledger, begun = ask.ledger, ask.ledger.clock()
        given = self._replies[min(len(self.whys), len(self._replies)) - 1]
        await asyncio.sleep(self.seconds)
        ledger.mark("decode")
        failed = isinstance(given, Exception)
        outcome = "failed" if failed else "ok"
        ledger.attempts.append(AttemptFacts(ledger.turn, "fake", "fake", why, begun, ledger.clock(), outcome))
        if failed:
            ask.emit([TextDelta("half")])
            raise given
        ask.emit([TextDelta(given.text), ReplyFinished("stop", len(given.calls))])
        ledger.turns.append(TurnFacts(ledger.turn, usage=given.usage))
        return given


def reply_of(text: str, *, tokens: int = 10, confidence: float | None = None, calls: Any = ()) -> Reply:
    return Reply(text, list(calls), "stop", Usage(tokens, tokens), confidence=confidence)


def router_of(*names: str, **options: Any) -> Router:
    """A router over models with these names, which no other has, the first of them its default."""
    place = f"http://127.0.0.1:9/{next(_numbers)}/v1"
    models = {name: Model(name=name, endpoint=place) for name in names}
    return Router(models=models, **{"default": names[0]} | options)


def ask_of(prompt: str = "hello", *, left: float | None = None, **options: Any) -> tuple[Ask, list[Event]]:
    """A question inside a running loop, and the list that its events go to."""
    told: list[Event] = []
    ledger = Ledger(clock(), "req-1")
    budget = None if left is None else Budget(total=left, answer_reserve=left / 2)
    emit = lambda events, throttle=None: told.extend(events)  # noqa: E731
    messages = bytearray(b'{"role":"user","content":"%b"}' % prompt.encode())
    deadline = Deadline(budget, ledger.start)
    return Ask(messages=messages, ledger=ledger, emit=emit, deadline=deadline, prompt=prompt, **options), told
