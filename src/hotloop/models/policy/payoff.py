"""Whether reading ahead pays at a service: its times to a first token with and without, as they were."""

from __future__ import annotations

import threading
from collections import deque
from typing import NamedTuple

from hotloop.trace.ledger import Ledger
from hotloop.trace.stats import percentile

_KEPT = 32
_PLAIN_FIRST = 3  # turns without, before the first with
_ENOUGH = 4  # turns with, before they are judged
_CONTROL = 8  # one turn in so many is without, so that there is always something to compare with
_AGAIN = 256  # such turns after which a verdict is forgotten
_BETTER = 0.9  # of the time without is what it has to take
_FAILURES = 2  # in a row, after which it is not tried again
_UNSETTLED = 64


class _Turn(NamedTuple):
    """A turn whose time to the first token is still to come, as number `place` of the run's."""

    ledger: Ledger
    place: int
    tokens: int
    ahead: bool


class Payoff:
    """Compares turns of one service, in nanoseconds to the first token for each new token of the prompt."""

    def __init__(self) -> None:
        self._plain: deque[float] = deque(maxlen=_KEPT)
        self._ahead: deque[float] = deque(maxlen=_KEPT)
        self._unsettled: deque[_Turn] = deque(maxlen=_UNSETTLED)
        self._settling = threading.Lock()
        self._chances = self._failures = 0

    @property
    def off(self) -> bool:
        """Whether it failed, or brought too little, so that it is not done for now."""
        return self._failures >= _FAILURES or (
            len(self._ahead) >= _ENOUGH and percentile(self._ahead, 50) > _BETTER * percentile(self._plain, 50)
        )

    def cost(self, tokens: int) -> float:
        """Nanoseconds that reading so many tokens takes, 0 while that is not known."""
        return percentile(self._plain, 50) * tokens if self._plain else 0.0

    def choose(self) -> bool:
        """Whether to read ahead now that it could pay."""
        self._chances += 1
        if self._chances % _AGAIN == 0:
            self._ahead.clear()
        return len(self._plain) >= _PLAIN_FIRST and self._chances % _CONTROL != 0 and not self.off

    def expect(self, ledger: Ledger, tokens: int, ahead: bool) -> None:
        """The ledger's next turn is one with so many new tokens, that were read ahead or not."""
        self._unsettled.append(_Turn(ledger, len(ledger.turns), tokens, ahead))

    def settle(self) -> None:
        """Take in what the turns that were expected have become."""
        with self._settling:
            for _ in range(len(self._unsettled)):
                turn = self._unsettled.popleft()
                if len(turn.ledger.turns) <= turn.place:
                    self._unsettled.append(turn)  # still to come, or of a run that broke off
                else:
                    self._take_in(turn)

    def _take_in(self, turn: _Turn) -> None:
        before, facts = turn.ledger.turns[turn.place - 1 : turn.place + 1]
        same = _answered(turn.ledger, before.turn) == _answered(turn.ledger, facts.turn)
        if same and facts.ttft is not None and facts.attempts == 1:
            (self._ahead if turn.ahead else self._plain).append(facts.ttft / turn.tokens)

    def failed(self, failed: bool) -> None:
        """One was refused by the service, or was not."""
        self._failures = self._failures + 1 if failed else 0


def _answered(ledger: Ledger, turn: int) -> tuple[str, str] | None:
    """The service and the model whose reply this turn was."""
    replies = (each for each in reversed(ledger.attempts) if each.outcome == "ok" and each.why != "prefill")
    return next(((each.service, each.model) for each in replies if each.turn == turn), None)
