"""Processes that share a file of sessions, to be killed: `python session_process.py WHAT FILE ...`.

Each says on stdout what it has done, one line each, after it was done.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from contextlib import aclosing
from itertools import count
from pathlib import Path

from hotloop.context.sessions.record import SessionKey, SessionState, StoredTurn
from hotloop.context.sessions.sqlite import SQLiteSessions
from killing import die_at

SHARED = SessionKey("clerk", "shared")
Said = dict[SessionKey, int]


def turn(number: int) -> StoredTurn:
    """A turn as a run would make it, the same for each number, and longer than a page of the file for some."""
    text = f"{number} " * (number % 7 * 500 + 1)
    messages = (
        f'{{"role":"user","content":"{text}"}},'
        f'{{"role":"assistant","content":null,"tool_calls":[{{"id":"call{number:05}","type":"function",'
        f'"function":{{"name":"look_up","arguments":"{{}}"}}}}]}},'
        f'{{"role":"tool","tool_call_id":"call{number:05}","content":"found"}},'
        f'{{"role":"assistant","content":"{number} it is."}}'
    )
    return StoredTurn(number, float(number), messages.encode())


async def commit(store: SQLiteSessions, key: SessionKey, number: int) -> None:
    """Keep turn `number`, with a whole result."""
    state = SessionState(version=number, user="ann", ids_given=number)
    await store.commit(key, state, turn(number), {f"call{number:05}": f"whole {number}"})


async def add_turn(store: SQLiteSessions, key: SessionKey) -> int:
    """Add the next turn as the only one who writes; its number."""
    async with store.writing(key, wait=True):
        stored = await store.load(key)
        number = (stored.state.version if stored else 0) + 1
        await commit(store, key, number)
        return number


async def checked_version(store: SQLiteSessions, key: SessionKey) -> int:
    """How many turns a session has, all of which must be there, whole, each with its result."""
    stored = await store.load(key)
    if stored is None:
        return 0
    version = stored.state.version
    assert stored.turns == [turn(number) for number in range(1, version + 1)], (key, version)
    assert (stored.repairs, stored.state) == ((), SessionState(version=version, user="ann", ids_given=version))
    for number in range(1, version + 1):
        assert await store.result(key, f"call{number:05}") == f"whole {number}"
    return version


async def work(path: Path, name: str, say: int) -> None:
    """Add turns to a session of one's own and to a shared one, until killed."""
    store = SQLiteSessions(path)
    while True:
        for key in (SessionKey("clerk", name), SHARED):
            number = await add_turn(store, key)
            os.write(say, f"{key.id} {number}\n".encode())


def kill(path: str, lives: str, seed: str) -> None:
    """`lives` times: let three children work, kill each at a moment of its own, and look at what they leave."""
    chance = random.Random(int(seed))
    turns = 0
    for life in range(int(lives)):
        said = _killed(Path(path), chance, life)
        turns = asyncio.run(_look(Path(path), said))
    print(turns, flush=True)


def _killed(path: Path, chance: random.Random, life: int) -> Said:
    """The last turn of each session of which a child has said that it was kept."""
    listen, say = os.pipe()
    children = [_child(path, f"{life} {number}", say) for number in range(3)]
    os.close(say)
    begun = os.read(listen, 4096)
    for child in children:
        time.sleep(chance.random() * 0.03)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(listen, "rb") as rest:
        lines = (begun + rest.read()).decode().splitlines()
    assert [os.WTERMSIG(os.waitpid(child, 0)[1]) for child in children] == [signal.SIGKILL] * 3
    said: Said = {}
    for key, number in (line.rsplit(" ", 1) for line in lines):
        said[SessionKey("clerk", key)] = max(int(number), said.get(SessionKey("clerk", key), 0))
    return said


def _child(path: Path, name: str, say: int) -> int:
    if (child := os.fork()) == 0:
        asyncio.run(work(path, name, say))
    return child


async def _look(path: Path, said: Said) -> int:
    """Look at each session; how many turns there are in all. One that was said to be kept must not be lost."""
    async with aclosing(SQLiteSessions(path)) as store:
        infos = await store.sessions()
        kept = {key: await checked_version(store, key) for key in (SessionKey(info.agent, info.id) for info in infos)}
        for key, number in said.items():
            unsaid = 3 if key == SHARED else 1
            assert number <= kept[key] <= number + unsaid, (key, number, kept[key])
        for key in kept:
            async with store.writing(key, wait=False):
                pass
        return sum(kept.values())


def die_at_each_statement(path: str) -> None:
    """Commit in children that are killed at the first SQL statement, the second and so on, until one survives."""
    for number in count():
        if (child := os.fork()) == 0:
            asyncio.run(_die_at(SQLiteSessions(path), number))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(asyncio.run(_version(path)), flush=True)
        if status == 0:
            return
        assert os.WTERMSIG(status) == signal.SIGKILL


async def _version(path: str) -> int:
    async with aclosing(SQLiteSessions(path)) as store:
        return await checked_version(store, SHARED)


async def _die_at(store: SQLiteSessions, number: int) -> None:
    await store.load(SHARED)
    die_at(number)
    await store.aclose()
    await commit(store, SHARED, 2)


async def hold(store: SQLiteSessions, session: str) -> None:
    """Write to a session until there is a line on stdin, and leave a child that writes to it after that."""
    key = SessionKey("clerk", session)
    async with store.writing(key, wait=True):
        if os.fork() == 0:
            signal.alarm(20)  # it must not outlive a test that fails
            sys.stdin.readline()
            print("child", asyncio.run(add_turn(store, key)), flush=True)
            os._exit(0)
        print("held", flush=True)
        sys.stdin.readline()


async def add(store: SQLiteSessions, session: str, counter: str, times: str) -> None:
    """Add to a number in a file, in steps that only being the only writer makes one."""
    file = Path(counter)
    read, write = file.read_text, file.write_text
    for _ in range(int(times)):
        async with store.writing(SessionKey("clerk", session), wait=True):
            number = int(read())
            await asyncio.sleep(0)
            write(str(number + 1))


if __name__ == "__main__":
    what = globals()[sys.argv[1]]
    if asyncio.iscoroutinefunction(what):
        asyncio.run(what(SQLiteSessions(sys.argv[2]), *sys.argv[3:]))
    else:
        what(*sys.argv[2:])
