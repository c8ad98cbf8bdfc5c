"""Sessions in a SQLite file: shared with others who write to it, some of whom do not know what they do."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_session_stores import EMPTY, KEY, keep, turn

from hotloop.context.conversation import Summary
from hotloop.context.sessions.record import SessionKey, SessionState
from hotloop.context.sessions.sqlite import SQLiteSessions
from hotloop.errors import ConfigError, SessionConflict

ROW = "WHERE session = 1 AND number = 2"


@pytest.fixture
async def store(tmp_path) -> AsyncIterator[SQLiteSessions]:
    store = SQLiteSessions(tmp_path / "sessions.db")
    yield store
    await store.aclose()


def change(path: Path, *statements: str) -> None:
    """What another program does to the file."""
    with closing(sqlite3.connect(path)) as db, db:
        for statement in statements:
            db.execute(statement)


async def test_conversation_that_was_begun_anew_is_not_taken_for_the_one_before(store):
    other = SQLiteSessions(store.path)
    await keep(store, KEY, 1, born="a")
    await other.delete(KEY)
    await keep(other, KEY, 1, born="b", user="bob")
    with pytest.raises(SessionConflict):
        await keep(store, KEY, 2, born="a")
    loaded = await store.load(KEY, 1, "a")
    assert loaded.state.user == "bob"
    await keep(store, KEY, 2, born="b")
    assert (await other.load(KEY, 1, "b")).state.version == 2


async def test_loading_never_looks_at_whole_results(store):
    await keep(store, KEY, 1)
    change(store.path, "DROP TABLE results")
    assert (await store.load(KEY)).turns == [turn(1)]


async def test_deleted_conversations_are_nowhere_in_the_folder_however_long_their_turns_were(store):
    chance = random.Random(1)
    secret = [SessionKey("clerk", f"secret-{number}-") for number in range(6)]
    for number in range(1, 41):
        for key in (*secret, KEY):
            text = f"{key.id} {number} " * chance.choice([1, 10, 100, 1000])
            state = SessionState(version=number, user=f"{key.id}'s")
            await store.commit(key, state, turn(number, text), {f"call{number}": text[: chance.randrange(2000)]})
    for keys in (secret[:1], secret[1:2], secret[2:]):
        assert await store.delete(*keys)
        left = b"".join(path.read_bytes() for path in store.path.parent.iterdir())
        assert not any(key.id.encode() in left for key in keys)
    assert [(info.id, info.turns) for info in await store.sessions()] == [("chat", 40)]
    assert (await store.load(KEY)).repairs == ()


@pytest.mark.parametrize(
    ("done", "numbers", "repair"),
    [
        (f"UPDATE turns SET messages = substr(messages, 1, 9) {ROW}", [1, 3], "turn 2 unreadable and left out"),
        (f"UPDATE turns SET messages = 7 {ROW}", [1, 3], "turn 2 unreadable and left out"),
        (f"UPDATE turns SET messages = '', at = 'then', checksum = 'odd' {ROW}", [1, 3], "turn 2 unreadable and left"),
        (f"UPDATE turns SET messages = CAST(messages AS TEXT) {ROW}", [1, 2, 3], None),
        (f"UPDATE turns SET checksum = NULL {ROW}", [1, 2, 3], "turn 2 not as kept, but whole"),
        (f"DELETE FROM turns {ROW}", [1, 3], "turn 2 missing"),
        ("DELETE FROM turns", [], "turns 1 to 3 missing"),
        ("INSERT INTO turns SELECT 1, 5, at, 0, messages FROM turns WHERE number = 1", [1, 2, 3, 5], "turn 4 missing"),
        ("UPDATE sessions SET version = 1", [1, 2, 3], None),
        ("UPDATE sessions SET version = 4", [1, 2, 3], "turn 4 missing"),
        ("UPDATE sessions SET version = -9", [1, 2, 3], None),
        ("UPDATE sessions SET state = 'odd'", [1, 2, 3], "its state lost but for the user"),
        ('UPDATE sessions SET state = \'{"version":"x"}\', user = 7', [1, 2, 3], "its state lost but for the user"),
    ],
)
async def test_session_that_another_program_has_changed_is_repaired_and_goes_on(store, caplog, done, numbers, repair):
    await keep(store, KEY, 1, 2, 3, user="ann")
    change(store.path, done)
    loaded = await store.load(KEY)
    assert [each.number for each in loaded.turns] == numbers
    assert loaded.state.user in ("ann", "7")
    told = "; ".join(loaded.repairs)
    assert told.startswith(repair or "") and bool(told) == bool(repair)
    warnings = [record.getMessage() for record in caplog.records]
    assert warnings == ([f"Session chat is used as far as it is whole: {told}."] if repair else [])
    assert await store.turns(KEY) == loaded.turns
    newest = loaded.state.version + 1
    await keep(store, KEY, newest)
    assert (await store.load(KEY, newest - 1)).state.version == newest


async def test_calls_without_a_result_get_one(store):
    call = {"id": "call00041", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    await keep(store, KEY, 1)
    text = json.dumps(messages)[1:-1].replace("'", "''")
    change(store.path, f"INSERT INTO turns VALUES (1, 2, 5.5, NULL, '{text}')")
    loaded = await store.load(KEY)
    assert (loaded.state.version, loaded.turns[1].at) == (2, 5.5)
    whole = json.loads(b"[%b]" % loaded.turns[1].messages)
    assert [message.get("content") for message in whole] == [
        "?",
        None,
        '{"error":"The call was cancelled."}',
        "The answer was lost.",
    ]
    assert loaded.repairs == ("turn 2 broken and mended",)
    assert loaded.state.ids_given == 41  # no later call has that id


async def test_summary_does_not_cut_a_turn_that_is_another_one_now(store):
    await keep(store, KEY, 1, 2)
    await keep(store, KEY, 3, summary=Summary("They met.", 1, 30, 60))
    assert (await store.load(KEY)).state.summary == Summary("They met.", 1, 30, 60)
    change(store.path, f"UPDATE turns SET messages = messages || ',1' {ROW}")
    loaded = await store.load(KEY)
    assert loaded.state.summary == Summary("They met.", 1)
    assert loaded.turns == [turn(2), turn(3)]


async def test_turns_that_nobody_owns_are_nobodys(store):
    await keep(store, KEY, 1, 2)
    change(store.path, "DELETE FROM sessions")  # which, of other programs, leaves the turns
    await keep(store, SessionKey("clerk", "new"), 1, user="bob")
    assert (await store.load(SessionKey("clerk", "new"))).turns == [turn(1)]
    assert await store.load(KEY, 2) == EMPTY


FILES = count()
DAMAGE = st.lists(
    st.sampled_from(
        [
            "UPDATE turns SET messages = CAST(ifnull(substr(messages, 1, {}), '') AS BLOB) WHERE number = {}",
            "UPDATE turns SET messages = randomblob({}) WHERE number = {}",
            "UPDATE turns SET messages = messages || '{}' WHERE number = {}",
            "UPDATE turns SET at = 'x{}', checksum = 'x' WHERE number = {}",
            "UPDATE OR IGNORE turns SET number = number + {} WHERE number = {}",
            "DELETE FROM turns WHERE number = {1}",
            "UPDATE sessions SET version = version - {} + {}",
            "UPDATE sessions SET state = substr(state, 1, {} + {})",
            "UPDATE sessions SET user = CAST({}{} AS BLOB)",
        ]
    ),
    min_size=1,
    max_size=4,
)


@pytest.fixture(scope="module")
def folder():
    with TemporaryDirectory() as folder:
        yield Path(folder)


@settings(max_examples=50, deadline=None)
@given(damage=DAMAGE, seed=st.integers(0, 1000))
def test_no_damage_makes_a_session_unusable(folder, damage, seed):
    chance = random.Random(seed)

    async def main() -> None:
        store = SQLiteSessions(folder / f"{next(FILES)}.db")
        await keep(store, KEY, 1, 2, 3, 4)
        await store.aclose()
        for statement in damage:
            change(store.path, statement.format(chance.randrange(200), chance.randrange(1, 5)))
        stored = await store.load(KEY)
        numbers = [each.number for each in stored.turns]
        assert numbers == sorted(set(numbers))
        for each in stored.turns:
            messages = json.loads(b"[%b]" % each.messages)
            assert [message["role"] for message in messages] == ["user", "assistant"]
        assert isinstance((await store.sessions())[0].turns, int)
        newest = stored.state.version + 1
        await keep(store, KEY, newest, newest + 1)
        again = await store.load(KEY)
        assert [each.number for each in again.turns] == [*numbers, newest, newest + 1]
        await store.delete(KEY)
        await store.aclose()

    asyncio.run(main())


async def test_what_cannot_be_kept_is_a_sentence(tmp_path):
    (tmp_path / "diary.db").write_text("Dear diary, this is no database. " * 40)
    with pytest.raises(ConfigError, match=r"The sessions cannot be kept in .*diary\.db: file is not a database"):
        await SQLiteSessions(tmp_path / "diary.db").load(KEY)
    store = SQLiteSessions(tmp_path / "sessions.db")
    odd = SessionKey("clerk", "\udcff")
    for use in (store.load(odd), keep(store, odd, 1), store.delete(odd), store.result(odd, "a")):
        with pytest.raises(ConfigError, match="is no text that can be kept: it is not valid Unicode"):
            await use
    await keep(store, KEY, 1)
    with pytest.raises(ConfigError, match="is no text that can be kept"):
        await store.commit(KEY, SessionState(version=2), turn(2), {"a": "\udcff"})
    assert (await store.load(KEY)).turns == [turn(1)]
    await store.aclose()
    with pytest.raises(ConfigError, match="for this process alone take InProcessSessions"):
        SQLiteSessions(":memory:")
