"""What every store of sessions does, in a file or in the process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.context.conversation import Summary
from hotloop.context.sessions.inprocess import InProcessSessions
from hotloop.context.sessions.record import SessionKey, SessionState, SessionStore, StoredSession, StoredTurn
from hotloop.context.sessions.sqlite import SQLiteSessions
from hotloop.errors import ConfigError, SessionConflict

KEY = SessionKey("clerk", "chat")
EMPTY = StoredSession(SessionState(), [])


def turn(number: int, text: str = "Hi.") -> StoredTurn:
    said = {"role": "user", "content": text}, {"role": "assistant", "content": f"Answer {number}."}
    return StoredTurn(number, 1000.0 + number, msgspec.json.encode(said)[1:-1])


async def keep(store: SessionStore, key: SessionKey, *numbers: int, **state: Any) -> None:
    for number in numbers:
        await store.commit(key, SessionState(version=number, **state), turn(number), {f"call{number}": f"all {number}"})


@pytest.fixture(params=["sqlite", "in process"])
async def store(request, tmp_path) -> AsyncIterator[SessionStore]:
    store = SQLiteSessions(tmp_path / "sessions.db") if request.param == "sqlite" else InProcessSessions()
    yield store
    await store.aclose()


async def test_conversation_comes_back_as_it_was_kept(store):
    state = SessionState(
        version=1, user="ann", instructions="Be kind.", ids_given=3, tools=("a", "b"), tasks={"refund": 1}
    )
    await store.commit(KEY, state, turn(1), {})
    assert await store.load(KEY) == StoredSession(state, [turn(1)])
    assert await store.turns(KEY) == [turn(1)]


async def test_only_what_is_newer_than_known_is_loaded(store):
    assert await store.load(KEY) is None
    await keep(store, KEY, 1, 2)
    assert await store.load(KEY, 2) is None
    assert (
        await store.load(KEY, 1) == await store.load(KEY) == StoredSession(SessionState(version=2), [turn(1), turn(2)])
    )


async def test_summary_stands_for_early_turns(store):
    await keep(store, KEY, 1, 2)
    await keep(store, KEY, 3, summary=Summary("They met.", 2))
    loaded = await store.load(KEY)
    assert (loaded.state.summary.text, loaded.turns) == ("They met.", [turn(3)])
    assert await store.turns(KEY) == [turn(1), turn(2), turn(3)]
    await keep(store, KEY, 4, summary=Summary("They parted.", 4))
    assert (await store.load(KEY)).turns == []


@pytest.mark.parametrize("version", [0, 1, 2, 4])
async def test_turn_that_is_not_the_next_is_a_conflict_and_leaves_nothing(store, version):
    await keep(store, KEY, 1, 2)
    before = await store.load(KEY), await store.sessions()
    with pytest.raises(SessionConflict, match="Session chat has gone on meanwhile, so that this turn was not kept"):
        await store.commit(KEY, SessionState(version=version, user="eve"), turn(version, "Odd."), {"odd": "result"})
    assert (await store.load(KEY), await store.sessions()) == before
    assert await store.result(KEY, "odd") is None


async def test_first_turn_is_number_one(store):
    with pytest.raises(SessionConflict):
        await keep(store, KEY, 2)
    assert await store.sessions() == []


async def test_whole_results_are_read_one_at_a_time(store):
    await keep(store, KEY, 1, 2)
    await store.commit(KEY, SessionState(version=3), turn(3), {"a": "", "b": "别" * 100_000})
    assert await store.result(KEY, "call1") == "all 1"
    assert [await store.result(KEY, call_id) for call_id in ("a", "b", "c")] == ["", "别" * 100_000, None]
    assert await store.result(SessionKey("clerk", "other"), "a") is None


async def test_what_is_deleted_is_gone_also_for_who_knows_it(store):
    await keep(store, KEY, 1, 2)
    await keep(store, SessionKey("clerk", "other"), 1)
    assert await store.delete(KEY)
    assert not await store.delete(KEY)
    assert await store.load(KEY) is None
    assert await store.load(KEY, 2) == EMPTY
    assert (await store.turns(KEY), await store.result(KEY, "call1")) == ([], None)
    assert [info.id for info in await store.sessions()] == ["other"]
    with pytest.raises(SessionConflict):
        await keep(store, KEY, 3)
    await keep(store, KEY, 1)
    assert (await store.load(KEY)).turns == [turn(1)]


async def test_several_are_deleted_at_once(store):
    keys = [SessionKey("clerk", name) for name in "abcd"]
    for key in keys[:3]:
        await keep(store, key, 1)
    assert await store.delete(keys[0], keys[3], keys[1])
    assert not await store.delete(keys[0], keys[3])
    assert not await store.delete()
    assert [info.id for info in await store.sessions()] == ["c"]


async def test_list_has_those_of_an_agent_and_a_user_the_latest_first_with_their_sizes(store):
    for agent, session, user in [("a", "1", "ann"), ("a", "2", "bob"), ("b", "1", "ann"), ("", "1", "")]:
        await keep(store, SessionKey(agent, session), 1, user=user)
    await keep(store, SessionKey("a", "1"), 2, user="ann")

    async def listed(**wanted: str) -> list[str]:
        return [info.agent + info.id for info in await store.sessions(**wanted)]

    assert await listed() == ["a1", "1", "b1", "a2"]
    assert await listed(agent="a") == ["a1", "a2"]
    assert await listed(user="ann") == ["a1", "b1"]
    assert await listed(agent="b", user="ann") == ["b1"]
    assert await listed(agent="", user="") == ["1"]
    assert await listed(user="nobody") == []
    (info,) = await store.sessions("a", "ann")
    assert (info.user, info.turns, info.created < info.updated) == ("ann", 2, True)
    assert info.bytes == len(turn(1).messages) + len(turn(2).messages) + len("all 1" + "all 2")


ODD = ["订单", "o'; DROP TABLE sessions; --", '"', "", " ", "a\x00b", "a/../b", "%", "🙂" * 200, "NULL", "1"]


@pytest.mark.parametrize("odd", ODD)
async def test_any_text_is_an_id(store, odd):
    keys = [SessionKey(odd, "x"), SessionKey("x", odd), SessionKey(odd, odd), SessionKey(f"{odd}-x", odd)]
    for number, key in enumerate(keys, 1):
        async with store.writing(key, wait=False):
            await keep(store, key, *range(1, number + 1), user=odd)
    assert [(await store.load(key)).state.version for key in keys] == [1, 2, 3, 4]
    assert {SessionKey(info.agent, info.id) for info in await store.sessions(user=odd)} == set(keys)
    assert [await store.delete(key) for key in keys] == [True] * 4
    assert await store.sessions() == []


@pytest.mark.parametrize("kind", [SQLiteSessions, InProcessSessions])
def test_of_those_that_commit_at_once_one_is_first(kind, tmp_path):
    """In four threads, each with its own event loop; in a file, each with its own store."""
    stores = [SQLiteSessions(tmp_path / "sessions.db") for _ in "abcd"]
    if kind is InProcessSessions:
        stores = [InProcessSessions()] * 4

    async def main(name: str, store: SessionStore) -> None:
        added = 0
        while added < 10:
            stored = await store.load(KEY) or EMPTY
            number = stored.state.version + 1
            try:
                await store.commit(KEY, SessionState(version=number), turn(number, name), {})
                added += 1
            except SessionConflict:
                pass

    threads = [threading.Thread(target=asyncio.run, args=[main(*each)]) for each in zip("abcd", stores, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    turns = asyncio.run(stores[0].turns(KEY))
    asyncio.run(stores[0].aclose())
    assert [each.number for each in turns] == list(range(1, 41))
    names = [msgspec.json.decode(b"[%b]" % each.messages)[0]["content"] for each in turns]
    assert sorted(names) == sorted("abcd" * 10)


async def test_closed_store_opens_when_it_is_used_again(store):
    await keep(store, KEY, 1)
    await store.aclose()
    await store.aclose()
    await keep(store, KEY, 2)
    assert (await store.load(KEY)).state.version == 2


# In the process


async def test_what_was_used_least_recently_makes_room():
    store = InProcessSessions(max_bytes=3 * 2000)
    for name in "abc":
        await store.commit(SessionKey("", name), SessionState(version=1), turn(1, "x" * 800), {})
    await store.load(SessionKey("", "a"))
    assert store.dropped == 0
    await store.commit(SessionKey("", "c"), SessionState(version=2), turn(2, "x" * 800), {"call1": "y" * 500})
    assert store.dropped == 1
    assert sorted(info.id for info in await store.sessions()) == ["a", "c"]
    assert await store.load(SessionKey("", "b"), 1) == EMPTY
    await store.commit(SessionKey("", "d"), SessionState(version=1), turn(1, "x" * 10_000), {})
    assert [info.id for info in await store.sessions()] == ["d"]
    await store.delete(SessionKey("", "d"))
    for name in "abc":
        await store.commit(SessionKey("", name), SessionState(version=1), turn(1), {})
    assert (len(await store.sessions()), store.dropped) == (3, 3)


@pytest.mark.parametrize("odd", [0, -1, 1.5, "1", True, None])
def test_bound_that_is_no_number_is_a_sentence(odd):
    with pytest.raises(ConfigError, match="give a whole number, 1 or more"):
        InProcessSessions(odd)


# Against a model


class Step(NamedTuple):
    """One thing to do with one of three sessions; `number` is by how much a version is off."""

    do: str
    session: int
    number: int


STEPS = st.builds(
    Step,
    st.sampled_from(["commit", "commit", "commit", "load", "known", "result", "turns", "list", "delete", "reopen"]),
    st.integers(0, 2),
    st.sampled_from([0, 0, 0, 0, -1, 1]),
)
AGENTS = count()


@pytest.fixture(scope="module")
def folder():
    with TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.mark.parametrize("kind", [SQLiteSessions, InProcessSessions])
@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEPS, max_size=40))
def test_store_does_what_a_simple_one_would(kind, folder, steps):
    def opened() -> SessionStore:
        return SQLiteSessions(folder / "sessions.db") if kind is SQLiteSessions else InProcessSessions()

    agent = f"agent {next(AGENTS)}"
    model: dict[SessionKey, list[StoredTurn]] = {}

    async def take(store: SessionStore, step: Step) -> None:
        key = SessionKey(agent, f"session {step.session}")
        turns = model.get(key, [])
        number = len(turns) + 1 + step.number
        whole = StoredSession(SessionState(version=len(turns), ids_given=len(turns)), turns) if turns else EMPTY
        match step.do:
            case "commit":
                new, state = turn(number, f"{step}"), SessionState(version=number, ids_given=number)
                try:
                    await store.commit(key, state, new, {"newest": f"{number}", f"call{number}": f"{number}"})
                    assert step.number == 0
                    model[key] = [*turns, new]
                except SessionConflict:
                    assert step.number != 0
            case "load":
                assert await store.load(key) == (whole if turns else None)
            case "known":
                assert await store.load(key, max(number - 1, 0)) in ([None] if step.number == 0 else [whole, None])
            case "result":
                kept = f"{number}" if 0 < number <= len(turns) else None
                assert await store.result(key, f"call{number}") == kept
                assert await store.result(key, "newest") == (f"{len(turns)}" if turns else None)
            case "turns":
                assert await store.turns(key) == turns
            case "list":
                infos = await store.sessions(agent)
                assert {info.id: info.turns for info in infos} == {key.id: len(kept) for key, kept in model.items()}
            case "delete":
                assert await store.delete(key) == bool(model.pop(key, []))
            case "reopen":
                await store.aclose()

    async def main() -> None:
        store = opened()
        for step in steps:
            await take(store, step)
        await store.aclose()

    asyncio.run(main())
