"""The benchmark of tools at work, as far as it is exact: on the virtual clock every run takes its critical path."""

from __future__ import annotations

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def cells():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        from act import virtual_cells

        return virtual_cells()


def least(cells, scenario: str, service: str) -> dict[str, float]:
    """The least times of a scenario by mode, in ms."""
    return {
        cell.mode.name: round(cell.least, 3)
        for cell in cells
        if (cell.scenario.name, cell.service.name) == (scenario, service)
    }


def test_on_the_virtual_clock_every_run_takes_the_least_that_is_possible(cells):
    off = [cell.to_dict() for cell in cells if not cell.exact]
    assert off == []
    assert len(cells) == 2 * (5 * 4 + 1)


def test_the_critical_path_is_what_a_person_works_out(cells):
    """Three calls of seven tokens each, tools of 150, 180 and 90 ms, an answer of 32 tokens."""
    calls, answer = 60 + 20 * 20, 60 + 31 * 20
    assert least(cells, "order desk", "GPU-like") == {
        "serial": calls + 150 + 180 + 90 + answer,
        "parallel": calls + 180 + answer,
        "eager": calls + 90 + answer,  # the last call is complete with the reply
        "cached": calls + answer,
    }
