"""Agents in processes that are killed: no answer is lost that was given, every turn is whole, every session goes on."""

from __future__ import annotations

import subprocess
import sys

import pytest

import session_agent_process

ENOUGH = 60  # seconds, for anything on a busy machine
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kills and forks")


def _done(what: str, *arguments: object) -> str:
    """What the process has said, having ended well; it ends with an error where it finds that anything is wrong."""
    command = [sys.executable, session_agent_process.__file__, what, *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=ENOUGH, check=True).stdout


@pytest.mark.parametrize("seed", [1, 2])
def test_no_answer_is_lost_and_no_turn_is_half_there_when_agents_are_killed_at_any_moment(tmp_path, seed):
    turns = int(_done("kill", tmp_path / "sessions.db", 12, seed))
    assert turns > 12 * 5  # of who looks there are up to four in each life, the others are of those who were killed


@pytest.mark.parametrize(
    ("moment", "times", "unsaid"), [("reading", 5, 0), ("thinking", 4, 0), ("writing", 3, 0), ("summarizing", 2, 1)]
)
def test_another_agent_goes_on_when_one_is_killed_in_the_middle_of_its_turn(tmp_path, moment, times, unsaid):
    _done("stop", tmp_path / "sessions.db", moment, times, unsaid)
