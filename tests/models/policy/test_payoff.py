"""What is made of turns that were read ahead or not."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from hotloop.models.policy.payoff import Payoff
from hotloop.trace.ledger import AttemptFacts, Ledger, TurnFacts


def run_of(*ttfts: int, services: str = "aa") -> Ledger:
    """A run with these times to the first token, and who answered each turn."""
    ledger = Ledger(lambda: 0, "run")
    ledger.turns += [TurnFacts(turn, ttft) for turn, ttft in enumerate(ttfts)]
    answers = [AttemptFacts(turn, service, "m", "first", 0, 1, "ok") for turn, service in enumerate(services)]
    ledger.attempts += [*answers, AttemptFacts(1, "a", "m", "prefill", 0, 1, "ok")]
    return ledger


def judged(payoff: Payoff, ahead: bool, ttft: int, services: str = "aa") -> None:
    ledger = run_of(1, services=services)
    payoff.expect(ledger, 10, ahead)
    payoff.settle()
    ledger.turns.append(TurnFacts(1, ttft))
    payoff.settle()


@pytest.mark.parametrize(("ttft", "off"), [(89, False), (95, True)])
def test_it_is_off_unless_it_takes_a_tenth_less(ttft, off):
    payoff = Payoff()
    for _ in range(4):
        judged(payoff, False, 100)
        judged(payoff, True, ttft)
    assert payoff.off is off
    assert payoff.cost(20) == 200


def test_a_turn_that_another_service_answered_is_not_counted():
    payoff = Payoff()
    for _ in range(4):
        judged(payoff, False, 100)
        judged(payoff, True, 10)
    for _ in range(30):
        judged(payoff, True, 900, services="ab")
    assert not payoff.off


def test_several_threads_may_settle_at_once():
    usual, payoff = sys.getswitchinterval(), Payoff()

    def settle(_: int) -> None:
        for _ in range(50):
            ledger = run_of(1)
            for _ in range(64):
                payoff.expect(ledger, 10, False)
            ledger.turns.append(TurnFacts(1, 100))
            payoff.settle()

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(settle, range(4)))
    finally:
        sys.setswitchinterval(usual)
    assert payoff.cost(1) == 10
