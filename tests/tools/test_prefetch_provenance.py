"""Where an argument was copied from is told by places and shapes, so that it is found again where values are others."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.tools.prefetch.past import Past, Seen
from hotloop.tools.prefetch.patterns import patterns_of
from hotloop.tools.prefetch.provenance import Source, sources
from hotloop.tools.prefetch.shapes import shape_of, words


def seen(tool: str, result: object = None, failed: bool = False, **arguments: object) -> Seen:
    content = result if isinstance(result, str) or result is None else json.dumps(result)
    return Seen(tool, arguments, content, failed, read_only=True)


def past(prompt: str, *calls: Seen) -> Past:
    """A run with one call a turn."""
    return Past(prompt, [[call] for call in calls])


def told(value: object, so_far: Past, tool: str = "next", argument: str = "value") -> list[str]:
    return [str(source) for source in sources(value, so_far, tool, argument)]


# Words and their shapes


@pytest.mark.parametrize(
    ("word", "shape"),
    [
        ("20250101", "9{8}"),
        ("#W2378156", "#X{8}"),
        ("1N99U6", "X{6}"),
        ("JFK", "X{3}"),
        ("Ann", "Aa"),
        ("ann_lee_1234", "a_a_9{4}"),
        ("ann", "a"),
        ("2024-05-20", "9{4}-9{2}-9{2}"),
        ("ann.lee@example.com", "a.a@a.a"),
        ("x7y", "x{3}"),
    ],
)
def test_shapes(word, shape):
    assert shape_of(word) == shape
    assert words(f"It is {word}, I think.")[2] == word


def test_words_without_blanks_between_them():
    assert words("查询订单20250101的状态，同时查SF-7.") == ("20250101", "SF-7")


# Where a value comes from


@pytest.mark.parametrize(
    ("value", "first"),
    [
        ("20250101", "the prompt like 9{8} (the next new one)"),
        (20250101, "the prompt like 9{8} (the next new one)"),
        ("u_7", "find_user"),
        ("o2", "user.orders[*].id (the next new one)"),
        (12, "user.age"),
        ("12", "user.age"),
        (["o1", "o2"], "user.orders[*].id (all)"),
        (["warm", "dry"], '["warm","dry"]'),
        ("de", "find_user(...).language"),
        ("nowhere", '"nowhere"'),
        ("USD", '"USD"'),
        (50, "50"),
        (None, "null"),
        ([], "[]"),
    ],
)
def test_the_likeliest_source(value, first):
    user = {"age": 12, "orders": [{"id": "o1"}, {"id": "o2"}], "home": {"city": "Ulm"}}
    so_far = past(
        "Where is order 20250101?",
        seen("find_user", "u_7", name="Ann", language="de"),
        seen("user", user, user_id="u_7"),
        seen("next", value="o1"),
    )
    assert told(value, so_far)[0] == first


def test_the_whole_prompt_and_only_the_latest_result():
    so_far = past("best pizza in Ulm", seen("search", {"id": "old"}), seen("search", {"id": "new"}))
    assert told("best pizza in Ulm", so_far) == ["the prompt"]
    assert told("old", so_far) == ['"old"']  # as if it were always the same
    assert told("new", so_far) == ["search.id"]


def test_an_item_is_the_next_new_one_or_at_its_place_or_the_last():
    so_far = past("", seen("user", {"orders": ["o1", "o2", "o3"]}))
    assert told("o1", so_far) == ["user.orders[*] (the next new one)", "user.orders[0]"]
    assert told("o3", so_far) == ["user.orders[2]", "user.orders[-1]"]
    so_far.turns.append([seen("next", value="o1"), seen("next", value="o2")])
    assert told("o3", so_far)[0] == "user.orders[*] (the next new one)"


@pytest.mark.parametrize(
    "result",
    [
        {"card_9513926": {"brand": "visa"}},
        {"cards": {"ann": {"brand": "visa"}, "bob": {"brand": "visa"}}},
        {"Ann Lee": {"brand": "visa"}},
    ],
)
def test_keys_that_are_data_are_on_no_path(result):
    assert told("visa", past("", seen("user", result))) == ['"visa"']


@pytest.mark.parametrize(
    "value", ["u_7", "Ann", "ann@example.com", "2024-05-20", 4711, ["u_7"], [["u_7"]], {"a": 1}, "x" * 40]
)
def test_what_may_be_of_one_person_is_no_constant(value):
    failed = seen("find", "u_7", failed=True)
    long = seen("read", "u_7 " + "x" * 300_000)
    assert told(value, past("", failed, long)) == []


@pytest.mark.parametrize("source", [Source("prompt", shape="9{8}"), Source("result", "user"), Source("call", "user")])
def test_a_place_that_is_not_there_is_told(source):
    with pytest.raises(LookupError):
        source.find(past("nothing"), "next", "value")


# Whatever there is

texts = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Zs")), min_size=1, max_size=12)
scalars = texts | st.integers(-(10**9), 10**9)
values = st.recursive(
    scalars | st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["id", "items", "user_id", "x9y"]), inner)
    ),
    max_leaves=12,
)


@given(prompt=texts, result=values, argument=values)
def test_every_source_finds_the_value_that_it_was_found_for(prompt, result, argument):
    so_far = past(prompt, seen("tool", result, a="b"))
    for pattern in patterns_of(seen("next", value=argument), so_far):
        assert pattern.fill(so_far) == {"value": argument}
