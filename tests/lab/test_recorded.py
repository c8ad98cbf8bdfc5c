"""Recorded prompts: how they are read, which belong together, and what is held against them."""

from __future__ import annotations

import json
import time

import pytest

from bodies import assistant, body, offered, system, user
from hotloop.errors import ConfigError
from hotloop.lab.recorded import Prompt, compare, read_prompts

LONG = "You are a helpful assistant of a shop. " * 30


def talk(number: int, turns: int, instructions: str = LONG, **options) -> list[bytes]:
    """The prompts of one conversation."""
    messages = [system(instructions), user(f"Question {number}?")]
    prompts = []
    for turn in range(turns):
        prompts.append(body(*messages, **options))
        messages += [assistant(f"Answer {number}.{turn}. " * 20), user("And then?")]
    return prompts


def recorded(*bodies: bytes) -> list[Prompt]:
    return [Prompt(line, each, "") for line, each in enumerate(bodies, 1)]


def told(bodies: list[bytes]) -> list[tuple[int, int, bool, str]]:
    return [(each.line, each.after, each.within, each.found.cause) for each in compare(recorded(*bodies)).faults]


def test_conversations_that_only_grow_have_no_faults():
    first, second = talk(1, 4), talk(2, 4)
    mixed = [each for pair in zip(first, second, strict=True) for each in pair]
    compared = compare(recorded(*mixed))
    assert (compared.prompts, compared.conversations, compared.again, compared.faults) == (8, 2, 0, [])
    assert compared.tokens > 8 * len(LONG) // 4


def test_a_clock_that_changes_from_turn_to_turn():
    timed = [talk(1, 3, f"It is 10:0{minute}. {LONG}")[minute] for minute in range(3)]
    assert told(timed) == [(2, 1, True, "clock"), (3, 2, True, "clock")]


def test_a_clock_that_changes_from_conversation_to_conversation():
    prompts = [each for minute in range(3) for each in talk(minute, 2, f"It is 10:0{minute}. {LONG}")]
    compared = compare(recorded(*prompts))
    assert [(each.line, each.within, each.meant) for each in compared.faults] == [(3, False, False), (5, False, False)]
    assert compared.again == sum(each.found.again for each in compared.faults) > 2 * len(LONG) // 4


def test_other_agents_in_the_same_file_may_be_meant():
    prompts = [*talk(1, 2), *talk(2, 2, f"Write SQL. {LONG}"), *talk(3, 2), *talk(4, 2, f"Write SQL. {LONG}")]
    compared = compare(recorded(*prompts))
    assert [(each.line, each.found.cause, each.meant) for each in compared.faults] == [(3, "text", True)]
    assert compared.again == 0


def test_history_that_is_cut_a_little_each_turn():
    whole = [json.loads(each) for each in talk(1, 6)]
    cut = [request | {"messages": [request["messages"][0], *request["messages"][1:][-5:]]} for request in whole]
    found = told([json.dumps(request).encode() for request in cut])
    assert [each[2:] for each in found] == [(True, "trimmed")] * 3


def test_tools_in_another_order():
    tools = [offered("a"), offered("b")]
    assert told([*talk(1, 2, tools=tools), *talk(1, 3, tools=tools[::-1])[2:]]) == [(3, 2, True, "tool order")]


def test_conversations_that_begin_alike_and_go_on_side_by_side():
    begun = [system(LONG), user("Hello?")]
    talks = [[*begun, assistant(f"Answer {number}."), user("And then?")] for number in range(20)]
    prompts = [body(*begun) for _ in talks] + [body(*talk) for talk in talks]
    prompts += [body(*talk, assistant("Then that."), user("Thanks.")) for talk in talks]
    compared = compare(recorded(*prompts))
    assert (compared.prompts, compared.conversations, compared.faults) == (60, 20, [])


def test_a_long_log_takes_no_longer_for_each_prompt():
    prompts = recorded(*(each for number in range(4000) for each in talk(number, 2, "You help.")))
    begun = time.process_time()
    assert compare(prompts).conversations == 4000
    assert time.process_time() - begun < 3.0  # not so if each is held against 1,000 others


@pytest.mark.parametrize(
    "wrap",
    [
        lambda request: request,
        lambda request: {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": request},
        lambda request: {"time": 1, "request": json.dumps(request), "response": {"id": "x"}},
        lambda request: {"event": {"kind": "model"}, "data": {"request": {"body": request}}},
    ],
)
def test_entries_of_logs(tmp_path, wrap):
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(json.dumps(wrap(json.loads(each))) for each in talk(1, 3)) + "\n\n")
    prompts = read_prompts(path)
    assert [each.line for each in prompts] == [1, 2, 3]
    assert [json.loads(each.body) for each in prompts] == [json.loads(each) for each in talk(1, 3)]


def test_conversations_with_names(tmp_path):
    entries = [{"session_id": name, "body": json.loads(each)} for name in ("a", "b") for each in talk(1, 2)]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, entries)))
    compared = compare(read_prompts(path))
    assert (compared.conversations, compared.faults) == (2, [])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "has no prompts"),
        ("{}\n", "line 1: there is no request with messages"),
        ('{"messages":[]}\nnonsense', "line 2: it is no JSON object"),
        ('{"body": "nonsense"}', "line 1: there is no request with messages"),
        ("[1]", "line 1: it is no JSON object"),
    ],
)
def test_what_cannot_be_read(tmp_path, text, sentence):
    path = tmp_path / "log.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigError, match=sentence):
        read_prompts(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_prompts(tmp_path)
