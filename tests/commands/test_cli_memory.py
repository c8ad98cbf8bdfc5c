"""Looking into what is known of users, without any model."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from terminal import on_a_terminal

posix = pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo terminals")


@pytest.fixture
def known(hotloop, tmp_path, monkeypatch) -> Path:
    """The usual file, in which two facts about Ann are, and one about Bob."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for user, text, *more in (
        ("ann", "Ann speaks French."),
        ("ann", "Order 7 is a gift.", "--session", "chat-1"),
        ("bob", "-1 is his lucky number."),
    ):
        ended = hotloop("memory", "add", text, "--user", user, *more)
        assert (ended.code, ended.err) == (0, "") and text in ended.out
    return tmp_path / "hotloop" / "memory.db"


def facts(ended) -> list[str]:
    return [each["text"] for each in json.loads(ended.out)["facts"]]


def test_list(hotloop, known):
    ended = hotloop("memory", "list", "--user", "ann")
    first, second = ended.out.splitlines()
    assert first.endswith("  Ann speaks French.") and second.endswith("  Order 7 is a gift.  (in session chat-1)")
    ended = hotloop("memory", "list", "--user", "eve")
    assert (ended.code, ended.out.replace("\n", "")) == (0, f"Nothing is known of eve in {known}.")


@pytest.mark.parametrize("command", [("export",), ("list", "--json")])
def test_export(hotloop, known, command):
    told = json.loads(hotloop("memory", *command, "--user", "ann").out)
    assert (told["path"], told["user"]) == (str(known), "ann")
    assert [(each["text"], each["session"]) for each in told["facts"]] == [
        ("Ann speaks French.", ""),
        ("Order 7 is a gift.", "chat-1"),
    ]


def test_search_shows_what_a_request_would_bring_along(hotloop, known):
    search = ("memory", "search", "Is it a gift?", "--user", "ann", "--json")
    assert facts(hotloop(*search, "--session", "chat-1")) == ["Order 7 is a gift.", "Ann speaks French."]
    assert facts(hotloop(*search)) == ["Ann speaks French."]


def test_search_goes_by_the_agents_file(hotloop, agent_file, tmp_path):
    path = agent_file("http://127.0.0.1:9/v1", "memory: {path: facts.db, limit: 1}")
    for text in ("Ann speaks French.", "Ann lives in Lyon."):
        assert hotloop("memory", "add", text, "--user", "ann", "--agent-file", path).code == 0
    assert (tmp_path / "facts.db").exists()
    ended = hotloop("memory", "search", "Which city in Lyon?", "--user", "ann", "--agent-file", path, "--json")
    assert facts(ended) == ["Ann lives in Lyon."]


def test_delete_one_and_all(hotloop, known):
    found = json.loads(hotloop("memory", "export", "--user", "ann").out)["facts"]
    ended = hotloop("memory", "delete", found[0]["id"], "--user", "ann", "--yes")
    assert (ended.code, ended.out, ended.err) == (0, "", "Deleted: 'Ann speaks French.' about ann.\n")
    ended = hotloop("memory", "delete", "--all", "--user", "ann", "--yes", "--json")
    assert json.loads(ended.out) == {"path": str(known), "user": "ann", "deleted": [found[1]["id"]]}
    assert facts(hotloop("memory", "list", "--user", "ann", "--json")) == []
    assert facts(hotloop("memory", "list", "--user", "bob", "--json")) == ["-1 is his lucky number."]


@posix
@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 0), ("n\n", 1, 2)])
def test_a_person_is_asked_before_anything_is_deleted(hotloop, known, answer, code, left):
    with on_a_terminal("memory", "delete", "--all", "--user", "ann") as terminal:
        terminal.until("Delete 2 facts about ann? [y/N]")
        terminal.type(answer)
        assert terminal.end()[0] == code
    assert len(facts(hotloop("memory", "list", "--user", "ann", "--json"))) == left


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["list"], "--user is missing."),
        (["list", "--user", "ann", "--path", "nowhere.db"], "There is no file nowhere.db."),
        (["delete", "--user", "ann"], "Give the id of a fact, or --all for all that is known of the user."),
        (["delete", "abc", "--user", "ann"], "There is no fact abc about ann in "),
        (["delete", "--all", "--user", "ann"], "Delete 2 facts about ann? Nobody is here to be asked"),
        (["add", " ", "--user", "ann"], "Memory"),
    ],
)
def test_what_cannot_be_done(hotloop, known, arguments, sentence):
    ended = hotloop("memory", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"error: {sentence}")
    assert len(facts(hotloop("memory", "list", "--user", "ann", "--json"))) == 2


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [("", "The agent of this file has no memory"), ("memory: {path: ':memory:'}", "keeps it in its own process")],
)
def test_of_an_agent_whose_memory_is_nowhere(hotloop, agent_file, extra, sentence):
    ended = hotloop("memory", "list", "--user", "ann", "--agent-file", agent_file("http://127.0.0.1:9/v1", extra))
    assert ended.code == 2 and sentence in ended.err
