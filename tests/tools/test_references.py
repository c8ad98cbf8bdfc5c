"""References: how they are read, what they lead to, and what a model is told that wrote one which leads nowhere."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.errors import ArgumentsError, ToolError
from hotloop.tools.paths import parse_path, write_path
from hotloop.tools.plan.references import Reference, parse_reference, references_in, resolve, value_of

S1 = {
    "user_id": "u7",
    "name": "Ann",
    "items": [{"id": 1, "tags": ["a", "b"]}, {"id": 2, "tags": ["c"]}],
    "odd name": 5,
    "订单": None,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s1", S1),
        ("$.s1", S1),
        (" s1.user_id ", "u7"),
        ("$.s1.user_id", "u7"),
        ('s1["odd name"]', 5),
        ("s1['odd name']", 5),
        ("s1.订单", None),
        ("s1.items[0].id", 1),
        ("s1.items[-1].tags[0]", "c"),
        ("s1.items[*].id", [1, 2]),
        ("s1.items[*].tags[*]", ["a", "b", "c"]),
        ("s1.items[*].tags", [["a", "b"], ["c"]]),
        ("s1.items[*]", S1["items"]),
    ],
)
def test_a_reference_leads_to_a_value(text: str, expected: Any) -> None:
    assert parse_reference(text).of(S1) == expected


@pytest.mark.parametrize(
    "text",
    [
        *["", "$", "1a", "s1.", "s1..a", "s1[", "s1[a]", "s1[1:2]", "s1[?(@.a)]", "s1 .a", "s1.a b", '["a b"].c'],
        *["s1[**]", "[0]", "a" * 33, 's1["\\x"]', 's1["\ud800"]', "s1.*", "s1.a()", "s1[99999999999]"],
    ],
)
def test_anything_else_is_no_reference(text: str) -> None:
    with pytest.raises(ArgumentsError, match=r"is no path; write one like|names no step; write a reference like"):
        parse_reference(text)


parts = st.text() | st.integers(-(10**8), 10**8) | st.none()


@given(st.lists(parts).map(tuple))
def test_a_path_is_read_as_it_was_written(path: tuple[str | int | None, ...]) -> None:
    assert parse_path(write_path(path)) == path
    assert parse_path(f"${write_path(path)}") == path
    assert parse_reference(str(Reference("s1", path))) == Reference("s1", path)


@pytest.mark.parametrize(
    ("text", "value", "words"),
    [
        (
            "s1.user_idd",
            S1,
            's1 has no "user_idd"; it has: user_id, name, items, odd name, 订单 (did you mean user_id?)',
        ),
        ("s1.items[5]", S1, "s1.items has 2 items, so there is no [5]"),
        ("s1.items[-3]", S1, "s1.items has 2 items, so there is no [-3]"),
        ("s1[0]", ["a"] * 0, "s1 has 0 items, so there is no [0]"),
        ("s1.name.first", S1, "s1.name is text, so it has no .first"),
        ("s1.name[0]", S1, "s1.name is text, so it has no [0]"),
        ("s1.items.id", S1, "s1.items is a list, so it has no .id; take [0] or [*]"),
        ("s1[*].id", {"a": 1}, "s1 is an object, so it has no [*]; it has: a"),
        ("s1.items[*].size", S1, 's1.items[0] has no "size"; it has: id, tags'),
        ("s1.订单.x", S1, "s1.订单 is null, so it has no .x"),
        ("s1.id", 7, "s1 is a number, so it has no .id"),
        ("s1.id", True, "s1 is true or false, so it has no .id"),
        ("s1.id", {"error": "No such user."}, "s1 is an error, so it has no .id: No such user."),
        ("s1.id", {}, 's1 has no "id"; it has: nothing'),
    ],
)
def test_a_reference_that_leads_nowhere_says_what_is_there(text: str, value: Any, words: str) -> None:
    with pytest.raises(ToolError) as caught:
        parse_reference(text).of(value)
    assert str(caught.value) == words


def test_what_is_there_is_told_in_bounds() -> None:
    with pytest.raises(ToolError, match=r"name19 and 99,980 more \(did you mean name7\?\)$") as caught:
        Reference("s1", ("name7x",)).of({f"name{n}": n for n in range(100_000)})
    assert len(str(caught.value)) < 300
    with pytest.raises(ToolError) as caught:
        Reference("s1", ("k" * 100_000,)).of({"l" * 100_000: 1})
    assert len(str(caught.value)) < 300


def test_references_are_found_at_any_depth_in_their_order() -> None:
    arguments = {"a": {"$ref": "s1"}, "b": [{"c": {"$ref": "s2.x"}}, {"$ref": "s1.y"}], "d": "s3"}
    assert [str(reference) for reference in references_in(arguments)] == ["s1", "s2.x", "s1.y"]


@pytest.mark.parametrize("value", [{"$ref": 5}, {"$ref": "s1", "more": 1}])
def test_what_only_looks_like_a_reference_is_a_fault(value: Any) -> None:
    with pytest.raises(ArgumentsError, match="nothing but the text"):
        references_in({"a": value})


@pytest.mark.parametrize("value", [{"ref": "s1"}, "s1", None])
def test_anything_else_is_a_value(value: Any) -> None:
    assert references_in({"a": value}) == []
    assert resolve({"a": value}, {}) == {"a": value}


def test_arguments_nested_too_deeply_are_told() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(ArgumentsError, match="nested too deeply"):
        references_in({"a": deep})


def test_values_take_the_place_of_references_and_nothing_is_changed() -> None:
    arguments = {"id": {"$ref": "s1.id"}, "all": [{"of": {"$ref": "s2[*]"}}], "plain": 1}
    assert resolve(arguments, {"s1": {"id": 7}, "s2": [1, 2]}) == {"id": 7, "all": [{"of": [1, 2]}], "plain": 1}
    assert arguments == {"id": {"$ref": "s1.id"}, "all": [{"of": {"$ref": "s2[*]"}}], "plain": 1}
    assert resolve({"$ref": "s1"}, {"s1": {"id": 7}}) == {"id": 7}


def test_a_reference_inside_a_result_is_a_value_like_any_other() -> None:
    assert resolve({"a": {"$ref": "s1"}}, {"s1": {"$ref": "s2"}, "s2": "secret"}) == {"a": {"$ref": "s2"}}


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ({}, "s1.id is not there, because s1 has no result"),
        ({"s1": ToolError("No such user.")}, "s1.id is not there, because s1 failed: No such user."),
        ({"s1": "text"}, "s1 is text, so it has no .id"),
    ],
)
def test_a_step_without_its_result_is_told(results: dict[str, Any], words: str) -> None:
    with pytest.raises(ToolError) as caught:
        resolve({"a": [{"$ref": "s1.id"}]}, results)
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("content", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ("[1]", [1]),
        ("7", 7),
        ('"text"', "text"),
        ("null", None),
        ("Shipped.", "Shipped."),
        ("007", "007"),
        ("", ""),
        ("[" * 9000, "[" * 9000),
        ("\ud800", "\ud800"),
    ],
)
def test_a_result_is_the_json_that_it_is_or_its_text(content: str, value: Any) -> None:
    assert value_of(content) == value
