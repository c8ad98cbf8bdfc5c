"""A router at work: a model is chosen for each turn, and a stronger one asked when its reply does not do."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from hotloop.errors import ModelError
from hotloop.models.ask import Ask, Thinker
from hotloop.models.dialects import Dialect
from hotloop.models.rejection import Judged
from hotloop.models.reply import Reply
from hotloop.models.routing.rules import Question
from hotloop.models.sizes import estimated_tokens
from hotloop.trace.ledger import Why
from hotloop.trace.stats import percentile
from hotloop.units import NS_PER_S, ms

if TYPE_CHECKING:
    from hotloop.models.routing.router import Cascade, Router

_REMEMBERED = 64  # replies of a model, of which the time that it takes is known


class Tried(msgspec.Struct, frozen=True):
    """One model that was asked.

    `outcome` is "ok", "failed", "rejected", or "kept": not good enough, but there was no time for a stronger one.
    `reason` says what was wrong, `ms` how long it took, `confidence` how sure the model was, if its service told.
    """

    route: str
    outcome: str
    reason: str
    ms: float
    confidence: float | None


class RouteFacts(msgspec.Struct):
    """One turn's route, as in the ledger's `facts["routes"]`: which `route` was chosen, why, and whom that asked.

    The last one `tried` has answered, if it did not fail.
    """

    turn: int
    route: str
    why: str
    tried: list[Tried] = []


class RouteTimes:
    """How long replies of each route took lately."""

    def __init__(self) -> None:
        self._seen: dict[str, deque[int]] = {}

    def note(self, route: str, took: int) -> None:
        """A reply of this route took so many nanoseconds."""
        self._seen.setdefault(route, deque(maxlen=_REMEMBERED)).append(took)

    def usual(self, route: str) -> int:
        """The nanoseconds that half of its replies did not exceed; 0 if there was none yet."""
        seen = self._seen.get(route)
        return int(percentile(seen, 50)) if seen else 0


class RoutedThinker:
    """See `Thinker`. History is kept in the dialect of the default model."""

    def __init__(self, router: Router, thinkers: Mapping[str, Thinker], times: RouteTimes) -> None:
        self._router = router
        self._thinkers = thinkers
        self._times = times
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
        cascade = self._router.cascade
        above = [] if cascade is None else self._names[self._names.index(route) + 1 :]
        for stronger in above:
            reply = await self._judged(route, stronger, ask, why, facts)
            if reply is not None:
                return reply
            route, why = stronger, "escalation"
        return await self._asked(route, ask, why, facts)

    def _choice(self, ask: Ask) -> tuple[str, str]:
        """The route for this turn, and why."""
        router = self._router
        before: list[RouteFacts] = ask.ledger.facts.get("routes", [])
        if before and router.per == "request":
            return before[-1].tried[-1].route, "the run is with it"
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

    async def _judged(self, route: str, stronger: str, ask: Ask, why: Why, facts: RouteFacts) -> Reply | None:
        """The model's reply; None if it failed or does not do, and there is time for the stronger one."""
        judged = Judged(ask)
        try:
            reply = await self._asked(route, judged.ask, why, facts)
        except ModelError as error:
            if not self._time_for(stronger, ask):
                raise
            judged.withdraw(str(error))
            return None
        wrong = _fault(reply, ask, self._router.cascade)
        if wrong and self._time_for(stronger, ask):
            await judged.reject(wrong)
            _revise(facts, "rejected", wrong)
            return None
        judged.accept()
        if wrong:
            _revise(facts, "kept", wrong)
        return reply

    def _time_for(self, route: str, ask: Ask) -> bool:
        left = ask.deadline.remaining_ns(ask.ledger.clock())
        return left is None or left > self._times.usual(route)

    async def _asked(self, route: str, ask: Ask, why: Why, facts: RouteFacts) -> Reply:
        clock = ask.ledger.clock
        begun = clock()
        try:
            reply = await self._thinkers[route].think(ask, why)
        except ModelError as error:
            facts.tried.append(Tried(route, "failed", str(error), ms(clock() - begun), None))
            raise
        took = clock() - begun
        self._times.note(route, took)
        facts.tried.append(Tried(route, "ok", "", ms(took), reply.confidence))
        return reply


def _fault(reply: Reply, ask: Ask, cascade: Cascade | None) -> str:
    """Why a reply does not do, "" if it does."""
    if cascade is None:
        return ""
    checks = [ask.check, *cascade.reject] if ask.check else cascade.reject
    if wrong := next((each for check in checks if (each := check(reply))), ""):
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


def _revise(facts: RouteFacts, outcome: str, reason: str) -> None:
    """Say of the last model that was tried what became of its reply."""
    facts.tried[-1] = msgspec.structs.replace(facts.tried[-1], outcome=outcome, reason=reason)
