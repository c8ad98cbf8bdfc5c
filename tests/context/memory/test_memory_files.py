"""The file that memory is kept in: what is in it when a process has ended, and what is left of who was deleted."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from string import ascii_lowercase

import pytest

from hotloop.context.memory.memory import Memory
from hotloop.errors import ConfigError


def found_in(path: Path, words: Iterable[str]) -> list[str]:
    """Which of these words are anywhere in the file, or in what SQLite has beside it."""
    contents = b"".join(each.read_bytes() for each in path.parent.iterdir())
    return [word for word in words if word.encode() in contents]


async def test_nothing_is_left_of_who_was_deleted(tmp_path):
    """Not in the log, on free pages, or in gaps of pages, however facts of many users were moved between them."""
    path, chance = tmp_path / "memory.db", random.Random(5)
    remembered = Memory(path, embed=lambda texts: [[float(len(text)), 1.0] for text in texts])
    users = [f"user{one}{other}q" for one in "abcde" for other in "fghijklm"]
    for number in range(500):
        user = chance.choice(users)
        words = [f"{user}{''.join(chance.choices(ascii_lowercase, k=6))}" for _ in range(chance.choice([3, 10, 40]))]
        told = remembered.remember(" ".join(words), user=user, session=user)
        if not number % 10:
            await remembered.flush()
            await remembered.recall("secret", user=user)
        if not number % 20:
            await remembered.forget(told.id, user=user)
    await remembered.flush()
    for user in users[:10]:
        assert found_in(path, [user]) == [user]
        told = {fact.id for fact in await remembered.export(user)}
        assert await remembered.delete(user) == len(told)
        assert found_in(path, [user, *told]) == []
        assert await remembered.recall("secret", user=user, session=user) == []
    await remembered.flush()
    assert found_in(path, users[:10]) == []
    await remembered.aclose()


async def test_a_forgotten_fact_is_overwritten(tmp_path):
    remembered = Memory(tmp_path / "memory.db")
    told = remembered.remember("Her password is hunter2", user="ann")
    await remembered.flush()
    assert found_in(tmp_path / "memory.db", ["hunter"])
    await remembered.forget(told.id, user="ann")
    assert not found_in(tmp_path / "memory.db", ["hunter", told.id])
    await remembered.aclose()


TELLS = """
import asyncio, os, signal, sys
from hotloop.context.memory.memory import Memory

async def main():
    remembered = Memory(sys.argv[1])
    for number in range(300):
        remembered.remember(f"fact {number}", user="ann")
    if sys.argv[2] == "killed":
        await remembered.flush()
        remembered.remember("a moment ago", user="ann")
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.parametrize(("end", "code"), [("exits", 0), ("killed", -signal.SIGKILL)])
async def test_a_process_that_ends_has_written_what_it_was_told(tmp_path, end, code):
    """Whoever exits, with nothing closed, loses nothing; whoever is killed, at most what was told a moment ago."""
    path = tmp_path / "memory.db"
    told = await asyncio.create_subprocess_exec(sys.executable, "-c", TELLS, path, end)
    assert await asyncio.wait_for(told.wait(), 60) == code
    remembered = Memory(path)
    assert 300 <= len(await remembered.export("ann")) <= 301
    await remembered.aclose()


async def test_facts_that_cannot_be_written_stay_and_are_said_so(tmp_path, caplog):
    path = tmp_path / "memory.db"
    path.mkdir()
    remembered = Memory(path)
    remembered.remember("tea", user="ann")
    with pytest.raises(ConfigError, match="The memory cannot be kept in"):
        await remembered.flush()
    assert "1 fact not written yet: The memory cannot be kept in" in caplog.text
    assert caplog.records[0].levelno == logging.ERROR
    with pytest.raises(ConfigError, match="The memory cannot be kept in"):
        await remembered.recall("tea", user="ann")
    path.rmdir()
    remembered.remember("milk", user="ann")
    await remembered.flush()
    assert [fact.text for fact in await remembered.export("ann")] == ["tea", "milk"]
    await remembered.aclose()


async def test_another_programs_file_is_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to be taken for one " * 20)
    remembered = Memory(path)
    with pytest.raises(ConfigError, match="not a database"):
        await remembered.export("ann")
    assert path.read_text().startswith("not a database")


async def test_the_usual_file_is_in_the_users_state_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    remembered = Memory()
    remembered.remember("tea", user="ann")
    await remembered.aclose()
    assert (tmp_path / "hotloop" / "memory.db").stat().st_mode & 0o777 == 0o600


async def test_a_closed_memory_has_no_thread_and_can_be_used_again(tmp_path):
    before = set(threading.enumerate())
    remembered = Memory(tmp_path / "memory.db", embed=lambda texts: [[1.0] for _ in texts])
    for fact in ("tea", "milk"):
        remembered.remember(fact, user="ann")
        await remembered.aclose()
    assert [fact.text for fact in await remembered.export("ann")] == ["tea", "milk"]
    await remembered.aclose()
    ours = [each for each in set(threading.enumerate()) - before if each.name.startswith("hotloop")]
    for each in ours:
        each.join(5)
    assert not any(each.is_alive() for each in ours)


AT_EXIT = """
import asyncio, atexit, sys
from hotloop.context.memory.memory import Memory
remembered = Memory(sys.argv[1], embed=lambda texts: [[1.0] for _ in texts])
for number in range(300):
    remembered.remember(f"fact {number}", user="ann")
asyncio.run(remembered.flush())
atexit.register(lambda: remembered.remember("goodbye", user="ann"))
"""


async def test_what_is_told_while_the_process_ends_is_kept(tmp_path):
    told = await asyncio.create_subprocess_exec(
        sys.executable, "-c", AT_EXIT, tmp_path / "memory.db", stderr=asyncio.subprocess.PIPE
    )
    _, said = await asyncio.wait_for(told.communicate(), 60)
    assert (told.returncode, said) == (0, b"")
    remembered = Memory(tmp_path / "memory.db")
    assert [fact.text for fact in await remembered.export("ann")][-1] == "goodbye"
    await remembered.aclose()


FORKS = """
import asyncio, os, sys
from hotloop.context.memory.memory import Memory
remembered = Memory(sys.argv[1])
remembered.remember("tea", user="ann")
asyncio.run(remembered.flush())
asyncio.run(remembered.recall("tea", user="ann"))
if child := os.fork():
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
remembered.remember("milk", user="ann")
assert len(asyncio.run(remembered.recall("milk", user="ann"))) == 2
"""


async def test_a_forked_process_has_threads_and_connections_of_its_own(tmp_path):
    told = await asyncio.create_subprocess_exec(sys.executable, "-W", "ignore", "-c", FORKS, tmp_path / "memory.db")
    assert await asyncio.wait_for(told.wait(), 60) == 0
    assert [each.name for each in tmp_path.iterdir()] == ["memory.db"]
    remembered = Memory(tmp_path / "memory.db")
    assert [fact.text for fact in await remembered.export("ann")] == ["tea", "milk"]
    await remembered.aclose()


HANGS = """
import asyncio, sys, time
from hotloop.context.memory import meaning
from hotloop.context.memory.memory import Memory
meaning._PATIENCE = 0.05

async def main():
    remembered = Memory(sys.argv[1], limit=1, embed=lambda texts: time.sleep(1000))
    remembered.remember("tea", user="ann")
    remembered.remember("milk", user="ann")
    print(len(await remembered.recall("tea", user="ann")))
    await remembered.aclose()

asyncio.run(main())
"""


async def test_an_embedding_that_hangs_does_not_keep_the_process(tmp_path):
    told = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        HANGS,
        tmp_path / "memory.db",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    found, said = await asyncio.wait_for(told.communicate(), 60)
    assert (told.returncode, found) == (0, b"1\n")
    assert said.count(b"An embedding has been at work for") == 2  # when the memory was closed, and the process ended
