"""Runs of a conversation that lasts from one command to the next."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing

import pytest
from desk import ONE, open_desk, refunded

from hotloop.context.sessions.record import SessionKey
from hotloop.context.sessions.sqlite import SQLiteSessions
from hotloop.testing import raw


def heard(request) -> str:
    """What the model was sent, but for its instructions."""
    return " | ".join(message["content"] for message in request["messages"])


@pytest.fixture
def listener(serve, agent_file):
    """An agent whose model answers with all that it was sent, and that keeps everything beside its file."""
    return agent_file(serve(heard), "sessions: {path: chats.db}\nmemory: {path: facts.db}")


def sessions(hotloop, path) -> list[tuple[str, str, int]]:
    found = json.loads(hotloop("session", "list", "--agent-file", path, "--json").out)["sessions"]
    return [(each["id"], each["user"], each["turns"]) for each in found]


def test_a_conversation_goes_on_in_the_next_command(hotloop, listener):
    first = hotloop("run", listener, "I am Ann.", "--session", "s", "--user", "ann", "--quiet")
    assert first == (0, "I am Ann.\n", "")
    second = hotloop("run", listener, "Who am I?", "--session", "s", "--user", "ann", "--json")
    assert json.loads(second.out)["output"] == "I am Ann. | I am Ann. | Who am I?"
    assert hotloop("run", listener, "Who am I?", "--quiet").out == "Who am I?\n"
    assert sessions(hotloop, listener) == [("s", "ann", 2)]


def test_what_is_known_of_the_user_comes_along(hotloop, listener):
    hotloop("memory", "add", "Ann speaks French.", "--user", "ann", "--agent-file", listener)
    for session in ((), ("--session", "s")):
        assert "Ann speaks French." in hotloop("run", listener, "Hello.", "--user", "ann", *session, "--quiet").out
    assert hotloop("run", listener, "Hello.", "--user", "bob", "--quiet").out == "Hello.\n"


def test_a_session_is_refused_to_another_user(hotloop, listener):
    hotloop("run", listener, "I am Ann.", "--session", "s", "--user", "ann")
    ended = hotloop("run", listener, "I am Bob.", "--session", "s", "--user", "bob", "--quiet")
    assert (ended.code, ended.out) == (2, "") and "another user" in ended.err
    assert sessions(hotloop, listener) == [("s", "ann", 1)]


def test_of_a_run_that_fails_nothing_is_kept(hotloop, serve, agent_file):
    path = agent_file(serve([raw(b"{}", status=500)]), "sessions: {path: chats.db}")
    assert hotloop("run", path, "Hello.", "--session", "s").code == 2
    assert sessions(hotloop, path) == []


def test_a_session_at_work_is_told_where_that_is_wanted(hotloop, listener):
    listener.write_text(listener.read_text().replace("chats.db", "chats.db, busy: reject"))

    async def while_writing():
        store = SQLiteSessions(listener.with_name("chats.db"))
        async with aclosing(store), store.writing(SessionKey("orders", "chat-1"), wait=True):
            return await asyncio.to_thread(hotloop, "run", listener, "Hello.", "--session", "chat-1", "--quiet")

    ended = asyncio.run(while_writing())
    assert (ended.code, ended.out) == (2, "") and "chat-1" in ended.err


def test_a_paused_run_comes_into_its_session_when_it_goes_on(hotloop, serve, tmp_path):
    config = open_desk(tmp_path, serve([ONE, "Done.", "Gladly."]))
    config.write_text(config.read_text() + "sessions: {path: chats.db}\n")
    ended = hotloop("run", config, "Pay back.", "--session", "s", "--user", "ann", "--trace-id", "req-7", "--quiet")
    assert (ended.code, sessions(hotloop, config)) == (3, [])
    ended = hotloop("resume", config, "req-7", "--approve-all")
    assert (ended.code, ended.out, refunded(config)) == (0, "Done.\n", "1")
    assert sessions(hotloop, config) == [("s", "ann", 1)]
    assert hotloop("run", config, "Thanks.", "--session", "s", "--quiet").out == "Gladly.\n"
    shown = hotloop("session", "show", "s", "--agent-file", config).out
    words = [line.split()[0] for line in shown.splitlines() if line and line[0].isalpha()]
    assert words == ["s", "user", "call", "result", "model", "user", "model"]
