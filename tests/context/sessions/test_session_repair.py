"""Turns that are made whole: nothing that a service would refuse is left, and nothing that can be read goes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.context.sessions.record import StoredTurn
from hotloop.context.sessions.repair import checksum, mended, whole_turns

USER = {"role": "user", "content": "Where is it?"}
ANSWER = {"role": "assistant", "content": "There."}
LOST = {"role": "assistant", "content": "The answer was lost."}


def calls(*ids: str) -> dict[str, Any]:
    asked = [{"id": each, "type": "function", "function": {"name": "f", "arguments": "{}"}} for each in ids]
    return {"role": "assistant", "content": None, "tool_calls": asked}


def result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "found"}


def cancelled(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": '{"error":"The call was cancelled."}'}


def encoded(*messages: Any) -> bytes:
    return b",".join(json.dumps(message, separators=(",", ":")).encode() for message in messages)


WHOLE = [USER, calls("a", "b"), result("b"), result("a"), calls("c"), result("c"), ANSWER]


@pytest.mark.parametrize(
    ("broken", "whole"),
    [
        ([USER, calls("a", "b"), result("b"), ANSWER], [USER, calls("a", "b"), result("b"), cancelled("a"), ANSWER]),
        ([USER, calls("a")], [USER, calls("a"), cancelled("a"), LOST]),
        ([USER, calls("a"), result("a")], [USER, calls("a"), result("a"), LOST]),
        ([USER, result("a"), ANSWER], [USER, ANSWER]),
        ([USER, calls("a"), result("a"), result("a"), ANSWER], [USER, calls("a"), result("a"), ANSWER]),
        ([USER, calls("a"), USER, result("a"), ANSWER], [USER, calls("a"), cancelled("a"), USER, ANSWER]),
        ([USER, calls("a", "a"), result("a"), ANSWER], [USER, ANSWER]),
        ([USER, calls('"\n'), ANSWER], [USER, calls('"\n'), cancelled('"\n'), ANSWER]),
        ([USER], [USER, LOST]),
        ([ANSWER, calls("a"), result("a"), USER, ANSWER], [USER, ANSWER]),
        ([USER, 7, None, {}, {"role": "robot", "content": "!"}, {"role": "assistant"}, ANSWER], [USER, ANSWER]),
        ([USER, {"role": "assistant", "tool_calls": [{"id": 1}]}, result("1"), ANSWER], [USER, ANSWER]),
        ([ANSWER], []),
        ([], []),
    ],
)
def test_turn_is_made_whole(broken, whole):
    assert json.loads(b"[%b]" % mended(encoded(*broken))) == whole


def test_what_is_whole_stays_to_the_byte():
    messages = encoded(*WHOLE).replace(b",{", b" , \n{") + b"\n"
    assert mended(messages) == messages


@pytest.mark.parametrize(
    "unreadable",
    [
        b"",
        b"{",
        b'{"role":"user","content":"\xff"},' + encoded(ANSWER),
        encoded(USER)[:-1],
        b"]" + encoded(*WHOLE),
        b'{"a":' * 100_000,
        encoded(USER) + b"," + b"[" * 100_000 + b"]" * 100_000,
    ],
)
def test_what_is_no_json_goes(unreadable):
    assert mended(unreadable) == b""


PIECES = st.sampled_from([USER, ANSWER, *map(calls, "abc"), calls("a", "b"), *map(result, "abcd"), {"role": "tool"}, 1])


@given(st.lists(PIECES, max_size=12))
def test_what_was_mended_can_be_sent(messages):
    whole = json.loads(b"[%b]" % mended(encoded(*messages)))
    if USER not in messages:
        assert whole == []
        return
    assert (whole[0], whole[-1]["role"], "tool_calls" in whole[-1]) == (USER, "assistant", False)
    waiting: list[str] = []
    for message in whole:
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
        else:
            assert not waiting
            waiting = [call["id"] for call in message.get("tool_calls", ())]
    assert [each for each in whole if each in (USER, ANSWER)] == [
        each for each in messages[messages.index(USER) :] if each in (USER, ANSWER)
    ]
    assert mended(encoded(*whole)) == encoded(*whole)


def row(number: int, messages: bytes, kept: int | None = None) -> tuple[int, float, bytes, int | None]:
    return number, 1.0, messages, kept


def good(number: int, messages: bytes = encoded(USER, ANSWER)) -> tuple[int, float, bytes, int | None]:
    return row(number, messages, checksum(number, messages))


def test_turns_with_the_right_checksum_are_not_parsed():
    rows = [good(number, b"no JSON") for number in (3, 4)]
    assert whole_turns(lambda: rows, 3, 4) == ([StoredTurn(3, 1.0, b"no JSON"), StoredTurn(4, 1.0, b"no JSON")], ())
    assert whole_turns(list, 5, 4) == ([], ())


@pytest.mark.parametrize(
    ("rows", "last", "numbers", "repairs"),
    [
        ([good(1), good(3), good(6)], 7, [1, 3, 6], ["turns 2, 4 to 5, 7 missing"]),
        ([], 2, [], ["turns 1 to 2 missing"]),
        ([], 10**15, [], [f"turns 1 to {10**15} missing"]),
        ([row(1, b"x"), row(2, b"x"), good(3)], 3, [3], ["turns 1 to 2 unreadable and left out"]),
        ([good(1), row(2, encoded(USER))], 2, [1, 2], ["turn 2 broken and mended"]),
        ([row(1, encoded(*WHOLE)), row(2, *good(1)[2:])], 2, [1, 2], ["turns 1 to 2 not as kept, but whole"]),
        ([row(1, b"x"), good(3)], 3, [3], ["turn 2 missing", "turn 1 unreadable and left out"]),
        (
            [good(number) for number in range(1, 100, 2)],
            99,
            list(range(1, 100, 2)),
            ["turns 2, 4, 6, 8, 10, 12, 14, 16, 18, 20 and more missing"],
        ),
    ],
)
def test_what_was_wrong_is_told(rows, last, numbers, repairs):
    turns, told = whole_turns(lambda: rows, 1, last)
    assert [turn.number for turn in turns] == numbers
    assert list(told) == repairs
