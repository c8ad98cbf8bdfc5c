"""The value of an object that is still being written, next to a reference that reads each beginning anew."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.output.scanner import PartialScanner

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=20
)
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=5)
WRITTEN = st.builds(
    lambda value, ascii_only, indent: json.dumps(value, ensure_ascii=ascii_only, indent=indent),
    OBJECTS,
    st.booleans(),
    st.sampled_from([None, 0, 2]),
)


def reference(text: str) -> Any:
    """The value of the beginning of an object, read from its start: what is complete, with the brackets closed."""
    value, _ = _value(text, _skip(text, text.index("{")))
    return value


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \n\t\r,:":
        at += 1
    return at


class _End(Exception):
    """The text ends within a scalar."""


def _value(text: str, at: int) -> tuple[Any, int]:
    if text[at] not in "{[":
        return _scalar(text, at)
    is_dict, at = text[at] == "{", _skip(text, at + 1)
    made: Any = {} if is_dict else []
    while at < len(text) and text[at] not in "}]":
        try:
            key, at = _scalar(text, at) if is_dict else ("", at)
            at = _skip(text, at)
            if at == len(text):
                break
            value, at = _value(text, at)
        except _End:
            return made, len(text)
        if is_dict:
            made[key] = value
        else:
            made.append(value)
        at = _skip(text, at)
    return made, at + 1


def _scalar(text: str, at: int) -> tuple[Any, int]:
    """A scalar counts when something comes after it, a text when it is closed."""
    end = at + 1
    if text[at] == '"':
        while end < len(text) and text[end] != '"':
            end += 2 if text[end] == "\\" else 1
        end += 1
        if end > len(text):
            raise _End
    else:
        while end < len(text) and text[end] not in ' \n\t\r,:{}[]"':
            end += 1
        if end == len(text):
            raise _End
    return json.loads(text[at:end]), end


def told(fragments: list[str]) -> list[Any]:
    """What is told after each of these fragments, as far as something is."""
    scanner, values = PartialScanner(), []
    for fragment in fragments:
        scanner.feed(fragment)
        if (value := scanner.take()) is not msgspec.UNSET:
            values.append(value)
    return values


def pieces(text: str, cuts: list[int]) -> list[str]:
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[start:end] for start, end in pairwise(places)]


def grows(before: Any, after: Any) -> bool:
    """Whether all of a value is in a later one."""
    if isinstance(before, dict):
        return all(key in after and grows(value, after[key]) for key, value in before.items())
    if isinstance(before, list):
        return len(before) <= len(after) and all(map(grows, before, after))
    return bool(before == after)


@given(WRITTEN, st.integers(0, 10**6))
@settings(max_examples=200)
def test_a_document_cut_anywhere_has_the_value_of_what_is_complete_in_it(text: str, cut: int) -> None:
    beginning = text[: 1 + cut % len(text)]
    (value,) = told([beginning])
    assert value == reference(beginning)


@given(WRITTEN, st.lists(st.integers(0, 10**6), max_size=30))
@settings(max_examples=200)
def test_however_it_is_cut_into_fragments_values_grow_to_the_whole(text: str, cuts: list[int]) -> None:
    values = told(pieces(text, cuts))
    assert values[-1] == json.loads(text)
    assert all(map(grows, values, values[1:]))


@given(WRITTEN)
def test_what_was_told_does_not_change_any_more(text: str) -> None:
    values, copies, scanner = [], [], PartialScanner()
    for char in text:
        scanner.feed(char)
        if (value := scanner.take()) is not msgspec.UNSET:
            values.append(value)
            copies.append(json.dumps(value))
    assert list(map(json.dumps, values)) == copies


@pytest.mark.parametrize(
    "text", ['Here you are:\n```json\n{"a": 1, "b": [true]}\n```\nAnything else?', '{"a":1,"b":[true]}}{']
)
def test_words_before_and_after_are_passed_over(text: str) -> None:
    assert told(list(text))[-1] == {"a": 1, "b": [True]}


@pytest.mark.parametrize(
    "text",
    ['{"a": 1, "b": nope, "c": 2}', '{"a": 1]', '{"a": 1, 2: 3}', '{"a": 1, {}}', '{"a": 1, "b": "\\x"}', "{1: 2}"],
)
@pytest.mark.parametrize("size", [1, 100])
def test_where_it_stops_being_json_the_value_stays(text: str, size: int) -> None:
    values = told([text[start : start + size] for start in range(0, len(text), size)])
    assert values[-1] in ({"a": 1}, {})


def test_text_without_an_object_has_no_value() -> None:
    assert told(list("There is nothing here.")) == []


def test_of_a_long_value_only_some_steps_are_told() -> None:
    """All of them would take time that grows with the square of its length."""
    count = 20_000
    values = told(['{"rows": [', *(f"{number}, " for number in range(count)), "0]}"])
    assert len(values) < 400
    assert len(values[-1]["rows"]) == count + 1
    assert [len(value["rows"]) for value in values[:6]] == [0, 1, 2, 3, 4, 5]


def test_nothing_is_read_twice() -> None:
    """A text of a million characters that comes one by one takes no longer than it has to."""
    scanner = PartialScanner()
    scanner.feed('{"a": "')
    for _ in range(100_000):
        scanner.feed("xxxxxxxxx\\")
        scanner.feed('"')
        assert scanner.take() in (msgspec.UNSET, {})
    scanner.feed('"')
    assert len(scanner.take()["a"]) == 1_000_000
