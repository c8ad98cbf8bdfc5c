"""Faults that were planted are found, alone and together, and nothing is where none was planted."""

from __future__ import annotations

import logging

import pytest

from hotloop.insight.doctor import diagnose
from hotloop.insight.doctor.rules import RULES
from hotloop.lab.faulty.cases import APART, IMPLIED, Planted, cases
from hotloop.lab.faulty.planted import FAULTS
from hotloop.lab.faulty.scenarios import SCENARIOS

ALONE = [Planted(list(SCENARIOS)[place % len(SCENARIOS)], 7, (name,)) for place, name in enumerate(FAULTS)]
TOGETHER = [
    Planted("desk", 7, ("clock", "full cache")),
    Planted("chat", 7, ("slow writing", "hiccups")),
    Planted("manual", 7, ("forty tools", "clock")),
    Planted("fast", 7, ("one by one", "asked again")),
    Planted("crowd", 7, ("rate limit", "overloaded")),
    Planted("mute", 7, ("far away", "new connections")),
    Planted("messy", 7, ("long chain", "slow reading")),
    Planted("messy", 7, ("one place", "refused")),
]


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Agents with faults warn of some of them."""
    caplog.set_level(logging.CRITICAL, "hotloop")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_an_agent_that_is_as_it_should_be_has_no_fault(scenario: str) -> None:
    assert diagnose(Planted(scenario, 7).play()) == []


@pytest.mark.parametrize("planted", [each for each in ALONE if each.possible] + TOGETHER, ids=str)
def test_what_was_planted_is_found_and_nothing_else(planted: Planted) -> None:
    found = {finding.rule for finding in diagnose(planted.play())}
    assert planted.expected <= found <= planted.expected | planted.allowed


def test_every_rule_has_a_fault_and_every_fault_a_rule() -> None:
    rules = {rule.name for rule in RULES}
    assert rules == {fault.finds for fault in FAULTS.values()}
    assert {each.fault for each in APART} | {other for each in APART for other in each.others} <= set(FAULTS)
    assert {each.rule for each in IMPLIED} <= rules


def test_a_planting_changes_its_own_setup_alone() -> None:
    before = [Planted(scenario, 7).setup for scenario in SCENARIOS]
    for planted in cases(1):
        planted.setup  # noqa: B018  it plants
    assert [Planted(scenario, 7).setup for scenario in SCENARIOS] == before


def test_the_same_case_is_the_same_twice() -> None:
    first, second = ([(run.start, run.end, run.stages) for run in Planted("messy", 7).play()] for _ in range(2))
    assert first == second


def test_what_cannot_go_together_is_not_planted_together() -> None:
    assert not Planted("desk", 1, ("one place", "one slot")).possible
    assert not Planted("mute", 1, ("one slot",)).possible
    assert Planted("desk", 1, ("one slot",)).possible
