"""The soak, as far as it is exact: on the virtual clock every run ends by its deadline, and well."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from hotloop.testing import run_virtual

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def soak():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        import soak

        return soak


def test_every_run_ends_well_and_in_time(soak):
    random.seed(1)  # of the jitter
    done = soak.Soak("virtual clock", 600)
    run_virtual(soak.measured(done, lambda text: None))
    assert done.problems == []
    assert done.ends["answer"] > 500
    assert done.ends["ReplyTimeout"] > 10
    assert sum(done.ends.values()) == 600
    assert done.quantile(1.0) == 0.0  # those that time out do so at the deadline itself


def test_what_does_not_hold_is_said(soak):
    bad = soak.Soak(
        "sockets", 4_000, untyped=["KeyError('x')"], worst=120.0, memory=[50, 51, 60, 70], tasks=2, sockets=1
    )
    assert bad.problems == [
        "sockets: 0 of 4,000 runs ended",
        "sockets: runs ended in something else than an answer or a typed error: [\"KeyError('x')\"]",
        "sockets: a run ended 120.000 ms after its deadline",
        "sockets: 2 tasks were left",
        "sockets: 1 sockets were left",
        "sockets: memory grew by 19.0 MB after the second quarter",
    ]
