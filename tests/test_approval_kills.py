"""Runs that wait for a person, in processes that are killed: what was approved happens once."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import approval_agent
from hotloop.tools.approvals.store import ApprovalStore
from killing import ENOUGH, started

UNKNOWN = "was begun before and did not end, so whether it took effect is not known. It is not run again."
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kills")


def _killed_when_paused(folder: Path) -> str:
    """Let a process run the agent, and kill it when it has paused; the run's id."""
    with started(approval_agent.__file__, "run", folder) as process:
        run_id = process.stdout.readline().strip()
        process.kill()
        assert process.wait(ENOUGH) == -9
    store = ApprovalStore(folder / "waiting.db")
    (waiting,) = store.load(run_id).calls
    store.decide(run_id, waiting.call.call_id, waiting.call.digest, True)
    return run_id


def _killed_at(point: str, folder: Path, run_id: str) -> None:
    """Let a process resume the run, and kill it when it has come to this point."""
    with started(approval_agent.__file__, "resume", folder, run_id, point) as process:
        assert process.stdout.readline().strip() == point
        process.kill()
        assert process.wait(ENOUGH) == -9


def _answer(folder: Path, run_id: str) -> list[str]:
    """Let a process take the run to its end: what it was told of its calls."""
    with started(approval_agent.__file__, "resume", folder, run_id) as process:
        answer = process.communicate(timeout=ENOUGH)[0]
        assert process.returncode == 0
    assert ApprovalStore(folder / "waiting.db").runs() == []
    return list(json.loads(answer).values())


@pytest.mark.parametrize(
    ("points", "unknown"),
    [
        ([], ""),
        (["refund 1"], "refund"),
        (["turn 1"], ""),
        (["note later"], "note"),
        (["turn 2"], ""),
        (["turn 1", "note later", "turn 2"], "note"),
        (["refund 1", "turn 1", "turn 1", "turn 2"], "refund"),
    ],
)
def test_approved_effect_happens_once_wherever_a_process_is_killed(tmp_path, points, unknown):
    run_id = _killed_when_paused(tmp_path)
    for point in points:
        _killed_at(point, tmp_path, run_id)
    told = _answer(tmp_path, run_id)
    assert (tmp_path / "effects").read_text().splitlines() == ["look_up a", "note first", "refund 1", "note later"]
    error = json.dumps({"error": f"{unknown} {UNKNOWN}"}, separators=(",", ":"))
    refunded, later = (error if unknown == name else said for name, said in (("refund", "paid"), ("note", "noted")))
    assert told == ["a found", refunded, "noted", later]
