"""Sessions in processes that are killed: what was kept stays, no turn is half there, and every session goes on."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import session_process
from hotloop.context.sessions.record import SessionKey
from hotloop.context.sessions.sqlite import SQLiteSessions
from hotloop.errors import SessionBusy
from session_process import SHARED, commit

ENOUGH = 30  # seconds, for anything on a busy machine
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kills and forks")


@contextmanager
def _started(what: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, session_process.__file__, what, *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "sessions.db"


async def _try_to_write(store: SQLiteSessions, session: str) -> None:
    async with store.writing(SessionKey("clerk", session), wait=False):
        pass


@pytest.mark.parametrize("seed", [1, 2])
def test_no_turn_that_was_kept_is_lost_when_processes_are_killed_at_any_moment(path, seed):
    with _started("kill", path, 12, seed) as killer:
        turns = int(killer.communicate(timeout=ENOUGH)[0])
        assert killer.returncode == 0
    assert turns > 36  # each of the children that were killed has kept some


def test_turn_is_kept_whole_or_not_at_all_at_whatever_statement_a_process_dies(path):
    async def begin() -> None:
        store = SQLiteSessions(path)
        await commit(store, SHARED, 1)
        await store.aclose()

    asyncio.run(begin())
    with _started("die_at_each_statement", path) as process:
        versions = process.communicate(timeout=ENOUGH)[0].split()
        assert process.returncode == 0
    assert versions == ["1"] * (len(versions) - 1) + ["2"]
    assert len(versions) > 8


def test_who_writes_is_free_again_when_its_process_is_killed_though_its_child_lives(path):
    async def main() -> None:
        store = SQLiteSessions(path)
        with _started("hold", path, "a") as holder:
            assert await asyncio.to_thread(holder.stdout.readline) == "held\n"
            await _try_to_write(store, "b")
            with pytest.raises(SessionBusy, match="Another run is writing to session a; wait for its end, or stop it"):
                await _try_to_write(store, "a")
            key = SessionKey("clerk", "a")
            given_up, waiting = (asyncio.create_task(session_process.add_turn(store, key)) for _ in range(2))
            await asyncio.sleep(0.05)
            given_up.cancel()
            await asyncio.wait([given_up, waiting], timeout=0.05)
            assert given_up.cancelled() and not waiting.done()
            holder.kill()
            assert await asyncio.wait_for(waiting, ENOUGH) == 1
            holder.stdin.write("go on\n")
            holder.stdin.flush()
            assert await asyncio.to_thread(holder.stdout.readline) == "child 2\n"
        await store.aclose()

    asyncio.run(main())


def test_processes_that_write_to_one_session_never_overlap(path, tmp_path):
    counter = tmp_path / "counter"
    counter.write_text("0")
    with ExitStack() as stack:
        writers = [stack.enter_context(_started("add", path, "a", counter, 100)) for _ in range(4)]
        assert [writer.wait(ENOUGH) for writer in writers] == [0] * 4
    assert counter.read_text() == "400"
