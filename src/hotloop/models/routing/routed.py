"""A router at work: a model is chosen for each turn, and a stronger one asked when its reply does not do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

import msgspec

from hotloop.errors import ModelError
from hotloop.models.ask import Ask, Thinker
from hotloop.models.dialects import Dialect
from hotloop.models.rejection import Judged, empty_answer, first_fault, note_doubt
from hotloop.models.reply import Reply
from hotloop.models.routing.router import Cascade, Router
from hotloop.models.routing.rules import Question
from hotloop.models.routing.times import times_of
from hotloop.models.sizes import estimated_tokens
from hotloop.trace.ledger import Why
from hotloop.units import NS_PER_S, ms


class Tried(msgspec.Struct, frozen=True):
    """One model that was asked.

    `outcome` is "ok", "failed", "rejected", or "kept": not good enough, but there was none better, for lack of time or
    because the stronger ones failed. `reason` says what was wrong, also with an "ok" reply of the strongest; `ms` is
    how long it took, `confidence` how sure the model was, if its service told.
    """

    route: str
    outcome: str
    reason: str
    ms: float
    confidence: float | None


class RouteFacts(msgspec.Struct):
    """One turn's route, as in the ledger's `facts["routes"]`: which `route` was chosen, why, and whom that asked."""

    turn: int
    route: str
    why: str
    tried: list[Tried] = []

    @property
    def answered(self) -> Tried:
        """The one whose reply was taken; if all have failed, the last of them."""
        taken = [each for each in self.tried if each.outcome in ("ok", "kept")]
        return (taken or self.tried)[-1]


class RoutedThinker:
    """See `Thinker`. History is kept in the dialect of the default model."""

    def __init__(self, router: Router, thinkers: Mapping[str, Thinker]) -> None:
        self._router = router
        self._thinkers = thinkers
        self._times = {name: times_of(model) for name, model in router.models.items()}
        self._names = list(router.models)

    @property
    def dialect(self) -> Dialect:
        """See `Thinker`."""
        return self._thinkers[self._router.default].dialect

    async def think(self, ask: Ask, why: Why = "first") -> Reply:
        """See `Thinker`."""
        route, reason = self._choice(ask)
        facts = RouteFacts(ask.ledger.turn, route, reason)
        ask.ledger.facts.setdefault("routes", []).append(facts)
        if self._router.cascade is None:
            return await self._asked(route, ask, why, facts)
        return await self._climb(self._names[self._names.index(route) :], ask, why, facts)

    def _choice(self, ask: Ask) -> tuple[str, str]:
        """The route for this turn, and why."""
        router = self._router
        before: list[RouteFacts] = ask.ledger.facts.get("routes", [])
        if before and router.per == "request":
            return before[-1].answered.route, "the run is with it"
        question = _question(ask) if router.rules else None
        for number, rule in enumerate(router.rules, 1):
            if question is not None and rule.fits(question):
                return rule.to, f"rule {number}"
        return self._learned(ask.prompt)

    def _learned(self, prompt: str) -> tuple[str, str]:
        default, classifier = self._router.default, self._router.classifier
        if classifier is None:
            return default, "default"
        route, sure = classifier.predict(prompt)
        if sure < classifier.confidence:
            return default, f"default: the classifier is {sure:.0%} sure of {route}"
        return route, f"classifier, {sure:.0%} sure"

    async def _climb(self, routes: Sequence[str], ask: Ask, why: Why, facts: RouteFacts) -> Reply:
        """The reply of the first route that does, as far up as there is time; if none does, the last that can be used.

        Raises the last error if there is none.
        """
        usable: _Usable | None = None
        for route, stronger in zip_longest(routes, routes[1:]):
            judged = Judged(ask, others=ask.others or stronger is not None)
            try:
                reply = await self._asked(route, judged.ask, why, facts)
            except ModelError as error:
                goes_on = self._time_for(stronger, ask)
                if not goes_on and usable is None:
                    raise
                judged.withdraw(str(error))
            else:
                wrong, goes_on = _fault(reply, ask, self._router.cascade), self._time_for(stronger, ask)
                if not wrong or not (goes_on or (usable and empty_answer(reply))):
                    _take(judged, facts, "kept" if wrong and stronger else "ok", wrong)
                    return reply
                await judged.reject(wrong)
                _revise(facts, -1, "rejected", wrong)
                if not empty_answer(reply):
                    usable = _Usable(judged, reply, len(facts.tried) - 1)
            if not goes_on:
                break
            why = "escalation"
        assert usable is not None
        usable.judged.restore()
        _revise(facts, usable.place, "kept", facts.tried[usable.place].reason)
        return usable.reply

    def _time_for(self, route: str | None, ask: Ask) -> bool:
        """Whether there is such a route, and time for it."""
        now = ask.ledger.clock()
        left = ask.deadline.remaining_ns(now)
        return route is not None and (left is None or left > self._times[route].usual(now))

    async def _asked(self, route: str, ask: Ask, why: Why, facts: RouteFacts) -> Reply:
        clock = ask.ledger.clock
        begun = clock()
        try:
            reply = await self._thinkers[route].think(ask, why)
        except ModelError as error:
            now = clock()
            if ask.deadline.remaining_ns(now) == 0:
                self._times[route].note_cut(now - begun, now)
            facts.tried.append(Tried(route, "failed", str(error), ms(now - begun), None))
            raise
        now = clock()
        self._times[route].note(now - begun, now)
        facts.tried.append(Tried(route, "ok", "", ms(now - begun), reply.confidence))
        return reply


class _Usable(NamedTuple):
    """A reply that was not good enough, but is better than none, and its place among those tried."""

    judged: Judged
    reply: Reply
    place: int


def _fault(reply: Reply, ask: Ask, cascade: Cascade | None) -> str:
    """Why a reply does not do, "" if it does."""
    if cascade is None:
        return ""
    if wrong := first_fault([ask.check, *cascade.reject] if ask.check else cascade.reject, reply):
        return wrong
    sure, least = reply.confidence, cascade.confidence
    if sure is not None and least is not None and sure < least:
        return f"the model was {sure:.0%} sure, less than {least:.0%}"
    return ""


def _question(ask: Ask) -> Question:
    ledger = ask.ledger
    left = ask.deadline.remaining_ns(ledger.clock())
    return Question(
        prompt=ask.prompt,
        turn=ledger.turn,
        tokens=estimated_tokens(ask.messages),
        tools=ask.tools,
        left=None if left is None else left / NS_PER_S,
        session=ask.session,
        background=ask.background,
    )


def _take(judged: Judged, facts: RouteFacts, outcome: str, wrong: str) -> None:
    """The newest reply stands, whatever is `wrong` with it."""
    judged.accept()
    if wrong:
        note_doubt(judged.ask.ledger, wrong)
        _revise(facts, -1, outcome, wrong)


def _revise(facts: RouteFacts, place: int, outcome: str, reason: str) -> None:
    """Say of a model that was tried what became of its reply."""
    facts.tried[place] = msgspec.structs.replace(facts.tried[place], outcome=outcome, reason=reason)
