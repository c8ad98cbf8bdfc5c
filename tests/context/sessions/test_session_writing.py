"""One writer at a time: in one event loop, in several threads, and free again whatever happens."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from hotloop.context.sessions.inprocess import InProcessSessions
from hotloop.context.sessions.record import SessionKey, SessionStore
from hotloop.context.sessions.sqlite import SQLiteSessions
from hotloop.errors import ConfigError, SessionBusy
from hotloop.testing import run_virtual

KEY, OTHER = SessionKey("clerk", "chat"), SessionKey("clerk", "other")
ENOUGH = 30  # seconds, for anything on a busy machine
Make = Callable[[], SessionStore]


@pytest.fixture(params=["sqlite", "in process"])
def make(request, tmp_path) -> Make:
    """Makes stores of the same sessions."""
    kept = InProcessSessions()
    return lambda: SQLiteSessions(tmp_path / "sessions.db") if request.param == "sqlite" else kept


@pytest.fixture
async def store(make) -> AsyncIterator[SessionStore]:
    yield make()


async def is_free(store: SessionStore, key: SessionKey = KEY) -> bool:
    try:
        async with store.writing(key, wait=False):
            return True
    except SessionBusy:
        return False


def test_who_comes_first_is_served_first(make):
    async def main() -> list[int]:
        served: list[int] = []

        async def write(number: int) -> None:
            async with make().writing(KEY, wait=True):
                served.append(number)
                await asyncio.sleep(0.1)
                served.append(number)

        await asyncio.gather(*map(write, range(5)))
        return served

    assert run_virtual(main()) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


async def test_who_does_not_wait_is_told(store, make):
    async with store.writing(KEY, wait=True), store.writing(OTHER, wait=False):
        with pytest.raises(SessionBusy, match="Another run is writing to session chat; wait for its end, or stop it"):
            async with make().writing(KEY, wait=False):
                pass
        assert not await is_free(store, OTHER)
    assert await is_free(store) and await is_free(store, OTHER)


async def test_session_is_free_after_an_error(store):
    with pytest.raises(ZeroDivisionError):
        async with store.writing(KEY, wait=True):
            raise ZeroDivisionError
    assert await is_free(store)


@pytest.mark.parametrize("which", [0, 1, 2])
async def test_who_is_cancelled_while_waiting_holds_nobody_up(store, which):
    served: list[int] = []

    async def write(number: int) -> None:
        async with store.writing(KEY, wait=True):
            served.append(number)

    async with store.writing(KEY, wait=True):
        tasks = [asyncio.create_task(write(number)) for number in range(3)]
        await asyncio.sleep(0)
        tasks[which].cancel()
    await asyncio.wait(tasks)
    assert served == [number for number in range(3) if number != which]
    assert await is_free(store)


async def test_who_is_cancelled_just_when_its_turn_has_come_passes_it_on(store):
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(store.writing(KEY, wait=True))
        tasks = [asyncio.create_task(write_once(store)) for _ in range(2)]
        await asyncio.sleep(0)
        await stack.aclose()  # the turn of the first one, which has not heard of it yet
        tasks[0].cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError) and done[1] == "written"
    assert await is_free(store)


async def write_once(store: SessionStore) -> str:
    async with store.writing(KEY, wait=True):
        return "written"


def test_threads_with_their_own_event_loops_never_overlap(make):
    inside: list[str] = []
    begin = threading.Barrier(4)

    async def main(name: str) -> None:
        store = make()
        begin.wait(ENOUGH)
        for _ in range(25):
            async with store.writing(KEY, wait=True):
                inside.append(name)
                await asyncio.sleep(0)
                inside.append(name)

    threads = [threading.Thread(target=asyncio.run, args=[main(name)]) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(ENOUGH)
    assert len(inside) == 200
    assert all(first == second for first, second in zip(inside[::2], inside[1::2], strict=True))


# The lock file


def open_files(folder: Path) -> list[str]:
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return [link.readlink().name for link in links if link.readlink().is_relative_to(folder)]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
async def test_lock_file_is_open_only_while_somebody_writes(tmp_path):
    store = SQLiteSessions(tmp_path / "sessions.db")
    assert list(tmp_path.iterdir()) == []
    async with store.writing(KEY, wait=True), SQLiteSessions(store.path).writing(OTHER, wait=True):
        assert open_files(tmp_path) == ["sessions.db.lock"]
    assert open_files(tmp_path) == []
    assert [(path.name, path.stat().st_size) for path in tmp_path.iterdir()] == [("sessions.db.lock", 0)]


async def test_one_file_by_two_paths_is_one(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    first, second = (SQLiteSessions(folder / "sessions.db") for folder in (tmp_path, tmp_path / "link"))
    async with first.writing(KEY, wait=True):
        assert not await is_free(second)
        async with second.writing(OTHER, wait=True):
            pass
        assert not await is_free(second)


async def test_place_without_room_for_a_lock_is_a_sentence(tmp_path):
    (tmp_path / "file").touch()
    store = SQLiteSessions(tmp_path / "file" / "sessions.db")
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"The sessions cannot be kept in .* Give a path where you may write"):
            async with store.writing(KEY, wait=True):
                pass
