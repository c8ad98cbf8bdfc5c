"""Looking into the conversations that are kept, without any model."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import aclosing
from pathlib import Path

import pytest
from terminal import on_a_terminal

from hotloop.context.conversation import Summary
from hotloop.context.sessions.record import SessionKey, SessionState, StoredTurn
from hotloop.context.sessions.sqlite import SQLiteSessions

posix = pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo terminals")
CALL = {"id": "call00001", "type": "function", "function": {"name": "order_status", "arguments": '{"order_id":"7"}'}}
FIRST = [
    {"role": "user", "content": "Where is order 7?\nIt is late."},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call00001", "content": '{"status":"shipped"}' + "x" * 500},
    {"role": "assistant", "content": "On its \x1b[31mway."},
]
SECOND = [{"role": "user", "content": "Thanks!"}, {"role": "assistant", "content": "Gladly."}]


def keep(path: Path, agent: str, session_id: str, user: str, *turns: object, **state: object) -> None:
    """Keep a conversation of these turns."""

    async def commit() -> None:
        async with aclosing(SQLiteSessions(path)) as store:
            for number, messages in enumerate(turns, 1):
                kept = SessionState(version=number, user=user, **state)
                turn = StoredTurn(number, 1.8e9 + number, json.dumps(messages)[1:-1].encode())
                await store.commit(SessionKey(agent, session_id), kept, turn, {"call00001": "the whole"})

    asyncio.run(commit())


@pytest.fixture
def kept(tmp_path, monkeypatch) -> Path:
    """A file with three conversations, in the state folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = tmp_path / "hotloop" / "sessions.db"
    keep(path, "orders", "chat-1", "ann", FIRST, SECOND)
    keep(path, "orders", "chat-2", "bob", SECOND)
    keep(path, "refunds", "chat-1", "ann", SECOND)
    return path


def listed(ended) -> list[tuple[str, str]]:
    return [(each["agent"], each["id"]) for each in json.loads(ended.out)["sessions"]]


def test_list_is_a_table(hotloop, kept):
    ended = hotloop("session", "list", "--user", "bob")
    head, row = ended.out.splitlines()
    assert (ended.code, ended.err) == (0, "")
    assert head.split() == ["session", "agent", "user", "turns", "size", "last", "used"]
    assert row.split()[:4] == ["chat-2", "orders", "bob", "1"]


def test_list_finds_what_is_asked_for(hotloop, kept):
    assert listed(hotloop("session", "list", "--json")) == [
        ("refunds", "chat-1"),
        ("orders", "chat-2"),
        ("orders", "chat-1"),
    ]
    assert listed(hotloop("session", "list", "--agent", "orders", "--user", "ann", "--json")) == [("orders", "chat-1")]
    ended = hotloop("session", "list", "--user", "eve")
    assert (ended.code, ended.out.replace("\n", "")) == (0, f"No sessions in {kept}.")


def test_rows_are_not_broken(hotloop, kept):
    long = "3f2504e0-4f89-11d3-9a0c-0305e82c3301" * 3
    keep(kept, "orders", long, "ann", SECOND)
    assert hotloop("session", "list").out.splitlines()[1].startswith(f"{long}   orders")


def test_show_says_who_said_what(hotloop, kept):
    ended = hotloop("session", "show", "chat-1", "--agent", "orders")
    head, _, first, *lines = ended.out.splitlines()
    assert (ended.code, ended.err) == (0, "")
    assert head.startswith("chat-1 · agent orders · user ann · 2 turns · ")
    assert first.startswith("1 · 20")
    result = lines.pop(3)
    assert lines[:4] == [
        "user    Where is order 7?",
        "        It is late.",
        'call    order_status {"order_id":"7"}',
        "model   On its \\u001b[31mway.",
    ]
    assert result.startswith('result  {"status":"shipped"}xxx') and result.endswith("…") and len(result) == 80
    assert [line.split()[0] for line in lines[5:8]] == ["2", "user", "model"]


def test_show_tells_instructions_and_what_the_model_reads_instead(hotloop, kept):
    keep(kept, "orders", "long", "", SECOND, instructions="Speak French.", summary=Summary("They said thanks.", 1))
    lines = hotloop("session", "show", "long").out.splitlines()
    assert lines[1] == "system  Speak French."
    assert lines[-3:-1] == ["the model reads a summary of all up to here (turn 1)", "summary They said thanks."]


@pytest.mark.parametrize("command", [("export",), ("show", "--json")])
def test_export_has_everything(hotloop, kept, command):
    ended = hotloop("session", *command, "chat-1", "--agent", "orders")
    told = json.loads(ended.out)
    assert (told["agent"], told["id"], told["user"], told["state"]["version"]) == ("orders", "chat-1", "ann", 2)
    assert [each["messages"] for each in told["turns"]] == [FIRST, SECOND]
    assert told["results"] == {"call00001": "the whole"}


def test_export_of_a_user(hotloop, kept):
    told = json.loads(hotloop("session", "export", "--all-of-user", "ann").out)
    assert told["user"] == "ann"
    assert [each["agent"] for each in told["sessions"]] == ["refunds", "orders"]
    assert json.loads(hotloop("session", "export", "--all-of-user", "eve").out) == {"user": "eve", "sessions": []}


def test_delete(hotloop, kept):
    ended = hotloop("session", "delete", "chat-2", "--yes")
    assert (ended.code, ended.out, ended.err) == (0, "", "Deleted: session chat-2 of bob (1 turn).\n")
    assert ("orders", "chat-2") not in listed(hotloop("session", "list", "--json"))
    ended = hotloop("session", "delete", "chat-2", "--yes")
    assert (ended.code, ended.err) == (2, f"error: There is no session chat-2 in {kept}; did you mean chat-1?\n")


def test_delete_all_of_a_user(hotloop, kept):
    ended = hotloop("session", "delete", "--all-of-user", "ann", "--yes", "--json")
    deleted = [{"agent": "refunds", "id": "chat-1"}, {"agent": "orders", "id": "chat-1"}]
    assert json.loads(ended.out) == {"path": str(kept), "deleted": deleted}
    assert listed(hotloop("session", "list", "--json")) == [("orders", "chat-2")]


def test_nothing_is_deleted_where_nobody_can_be_asked(hotloop, kept):
    ended = hotloop("session", "delete", "--all-of-user", "ann")
    question = "Delete 2 sessions of ann (3 turns)? Nobody is here to be asked"
    assert ended.code == 2 and ended.err.startswith(f"error: {question}")
    assert len(listed(hotloop("session", "list", "--json"))) == 3


@posix
@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 2), ("\n", 1, 3)])
def test_a_person_is_asked_before_anything_is_deleted(hotloop, kept, answer, code, left):
    with on_a_terminal("session", "delete", "chat-2") as terminal:
        terminal.until("Delete session chat-2 of bob (1 turn)? [y/N]")
        terminal.type(answer)
        assert terminal.end()[0] == code
    assert len(listed(hotloop("session", "list", "--json"))) == left


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["show", "chat-1"], "Several agents have a session chat-1: refunds, orders. Say whose, with --agent."),
        (["show", "chat-1", "--agent", "none"], "There is no session chat-1 in "),
        (["show"], "SESSION_ID is missing."),
        (["export"], "Give a session, or --all-of-user for all that a user has."),
        (["delete", "chat-1", "--all-of-user", "ann"], "Give a session, or --all-of-user for all"),
        (["list", "--path", "nowhere.db"], "There is no file nowhere.db."),
        (["list", "--user", " "], 'Invalid value " " for --user. A name is empty'),
    ],
)
def test_what_cannot_be_done(hotloop, kept, arguments, sentence):
    ended = hotloop("session", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"error: {sentence}")


def test_of_an_agents_file(hotloop, kept, agent_file, tmp_path):
    path = agent_file("http://127.0.0.1:9/v1")
    assert listed(hotloop("session", "list", "--agent-file", path, "--json")) == [
        ("orders", "chat-2"),
        ("orders", "chat-1"),
    ]
    keep(tmp_path / "chats.db", "orders", "here", "", SECOND)
    path = agent_file("http://127.0.0.1:9/v1", "sessions: {path: chats.db}")
    assert listed(hotloop("session", "list", "--agent-file", path, "--json")) == [("orders", "here")]
    ended = hotloop("session", "list", "--agent-file", path, "--agent", "other")
    assert (ended.code, ended.err[:21]) == (2, "error: The agent's fi")
    path = agent_file("http://127.0.0.1:9/v1", "sessions: {path: ':memory:'}")
    assert "keeps it in its own process" in hotloop("session", "list", "--agent-file", path).err


@pytest.mark.parametrize("arguments", [["session"], ["session", "delete", "--help"]])
def test_help(hotloop, arguments):
    ended = hotloop(*arguments)
    assert ended.code == 0
    assert "Example: hotloop session " in ended.out
