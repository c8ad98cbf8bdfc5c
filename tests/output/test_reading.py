"""The answer in a reply: found, or why it is none."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hotloop.models.reply import Call, Reply
from hotloop.output.output import Output
from hotloop.output.reading import Answer, Wrong, read_answer, whole_object
from hotloop.trace.ledger import Usage


class Point(msgspec.Struct):
    x: int
    y: int


OUTPUT = Output.of(Point)
GOOD = '{"x": 1, "y": 2}'
BAD = '{"x": 1, "y": "2"}'


def read(text: str = "", *calls: tuple[str, str], finish: str = "stop", output: Output | None = OUTPUT) -> Any:
    assert output is not None
    return read_answer(output, Reply(text, [Call(*call) for call in calls], finish, Usage()))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (GOOD, False),
        (f"\n {GOOD}\n", False),
        (f"```json\n{GOOD}\n```", True),
        (f"```\n{GOOD}\n```", True),
        (f"Here it is: {GOOD} Anything else?", True),
        (f"{GOOD}\n\nThat is all.", True),
    ],
)
def test_an_answer_may_have_words_around_it(text: str, found: bool) -> None:
    answer = read(text)
    assert isinstance(answer, Answer)
    assert (answer.value, answer.found) == (Point(1, 2), found)
    assert msgspec.json.decode(answer.text) == {"x": 1, "y": 2}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        ("One and two.", "there is no JSON object in it"),
        (BAD, "Expected `int`, got `str` - at `$.y`"),
        (f"It is {BAD}.", "Expected `int`, got `str` - at `$.y`"),
        (f"[{GOOD}]", "Expected `object`, got `array`"),
        (f"Either {GOOD} or {GOOD}", "JSON is malformed"),
        (f"Either {GOOD} or {{", "JSON is malformed"),
        ('{"x": 1, "y": 2', "truncated"),
        ("{'x': 1, 'y': 2}", "JSON is malformed"),
        ('{"x": 1, "y": 2,}', "JSON is malformed"),
        ("{" * 50_000, "JSON is malformed"),
    ],
)
def test_nothing_else_is_mended(text: str, reason: str) -> None:
    wrong = read(text)
    assert isinstance(wrong, Wrong)
    assert reason in wrong.reason
    assert wrong.text in text


def test_nothing_is_taken_from_a_reply_that_was_cut() -> None:
    assert read(GOOD, finish="length") == Wrong("the token cap cut it off before it was complete; write less", GOOD)


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([("look_up", "{}")], None),
        ([("look_up", "{}"), ("final_answer", GOOD)], Answer(Point(1, 2), GOOD)),
        ([("final_answer", BAD), ("final_answer", GOOD)], Answer(Point(1, 2), GOOD)),
        ([("final_answer", BAD)], Wrong("Expected `int`, got `str` - at `$.y`", BAD)),
    ],
)
def test_the_call_that_gives_the_answer(calls: list[tuple[str, str]], expected: Any) -> None:
    assert read("Some words.", *calls, finish="tool_calls") == expected


class Checked(msgspec.Struct):
    x: int

    def __post_init__(self) -> None:
        if self.x == 1:
            raise ValueError("one is not enough")
        if self.x == 2:
            raise KeyError("two")


@pytest.mark.parametrize(("text", "reason"), [('{"x": 1}', "one is not enough"), ('{"x": 2}', "KeyError: 'two'")])
def test_a_types_own_checks_count(text: str, reason: str) -> None:
    assert reason in read(text, output=Output.of(Checked)).reason


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("no", ""),
        ('a {"b": {"c": "}"}} d', '{"b": {"c": "}"}}'),
        ("{a} {}", ""),
        ('{"a": 1', ""),
        ("{}{}", ""),
    ],
)
def test_the_one_object_in_a_text(text: str, expected: str) -> None:
    assert whole_object(text) == expected
