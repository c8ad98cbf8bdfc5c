"""Parts of results: nothing is invented, all that is kept is there, and all that is not can still be read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from hotloop.errors import ToolDefinitionError
from hotloop.tools.cutting.cut import part
from hotloop.tools.cutting.keep import read_keep
from hotloop.tools.paths import write_path

ORDER = {
    "status": "shipped",
    "eta": "2025-01-09",
    "items": [{"sku": "A1", "name": "Lamp", "price": 1.50}, {"sku": "B2", "name": "Chair", "price": 2}],
    "customer": {"name": "Ann", "address": {"city": "Shenzhen", "zip": "518000"}},
}


def shown(value: Any, *paths: str) -> Any:
    """What the model reads, without a mark."""
    parts = read_keep(paths).of(json.dumps(value))
    return None if parts is None else json.loads(parts)


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["status"], {"status": "shipped"}),
        (
            ["status", "eta", "items[].sku"],
            {"status": "shipped", "eta": "2025-01-09", "items": [{"sku": "A1"}, {"sku": "B2"}]},
        ),
        (["$.items[*].name"], {"items": [{"name": "Lamp"}, {"name": "Chair"}]}),
        (["customer.address.city", "nothing"], {"customer": {"address": {"city": "Shenzhen"}}}),
        (["customer", "customer.name"], {"customer": ORDER["customer"]}),
        (["customer.name", "customer"], {"customer": ORDER["customer"]}),
        (['["status"]', "items[]"], {"status": "shipped", "items": ORDER["items"]}),
    ],
)
def test_the_parts_that_are_kept_in_their_shape(paths, expected):
    assert shown(ORDER, *paths) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"items": [{"sku": 1, "a": 2}, {"a": 3}], "b": 1}, {"items": [{"sku": 1}, {}]}),  # positions stay
        ({"items": None, "b": 1}, {"items": None}),
        ({"items": [], "b": 1}, {"items": []}),
        ({"items": "none in stock", "b": 1}, {"items": "none in stock"}),
        ({"items": [None, "gone", {"sku": 1}], "b": 1}, {"items": [None, "gone", {"sku": 1}]}),
    ],
)
def test_what_is_missing_is_not_there_and_null_or_text_stays(value, expected):
    assert shown(value, "items[].sku", "eta") == expected


@pytest.mark.parametrize(
    "value",
    [
        {"error": "no such order"},
        {"items": [{"name": "Lamp"}]},
        {"status": "shipped", "items": {"A1": {"sku": "A1"}}},
        {"status": "shipped", "items": [{"sku": "A1"}, 7]},
        {"status": "shipped", "items": [{"sku": "A1"}]},  # all of it is kept
        [{"status": "shipped"}],
        "shipped",
        7,
        None,
    ],
)
def test_results_without_these_parts_or_of_another_shape_are_read_as_they_are(value):
    assert shown(value, "status", "items[].sku") is None


@pytest.mark.parametrize(
    "content", ["", "status: shipped", '{"status": "shipped", "x"', "[" * 100_000, '{"a":' * 100_000]
)
def test_what_is_no_json_is_read_as_it_is(content):
    assert read_keep(["status", "a.b"]).of(content) is None


def test_a_list_at_the_top():
    keep = read_keep(["[].sku"])
    parts = keep.of(json.dumps(ORDER["items"]))
    assert parts == '[{"sku":"A1"},{"sku":"B2"}]'
    assert keep.marked(parts, "more") == '[{"sku":"A1"},{"sku":"B2"},{"…":"more"}]'


def test_the_mark_has_a_name_of_its_own():
    keep = read_keep(["a", '["…"]'])
    parts = keep.of('{"a":1,"…":2,"b":3}')
    assert json.loads(keep.marked(parts, "more")) == {"a": 1, "…": 2, "……": "more"}


def test_numbers_keep_all_their_digits_and_spaces_go():
    content = '{ "a": { "x": 1.10, "y": 12345678901234567890.5 }, "b": 1 }'
    assert read_keep(["a"]).of(content) == '{"a":{"x":1.10,"y":12345678901234567890.5}}'


def test_parts_can_be_had_in_the_order_of_the_whole():
    keep = read_keep(["eta", "customer.name", "customer.address.zip", "customer.address.city", "status"])
    assert keep.in_order(json.dumps(ORDER)) == json.dumps(
        {
            "status": "shipped",
            "eta": "2025-01-09",
            "customer": {"name": "Ann", "address": {"city": "Shenzhen", "zip": "518000"}},
        },
        separators=(",", ":"),
    )


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (["order id"], "'order id' is no path; write one like status or items[].sku"),
        (["items[].sku", "a..b"], "'a..b' is no path; write one like status or items[].sku"),
        (["$"], "'$' is all of a result; name parts of it, or leave keep out"),
        (["items[0].sku"], "'items[0].sku' names one item, [0]; of a list keep all items, []"),
        (["items[].sku", "items.total"], "by 'items.total' items is an object, by others not"),
        (["status", "[].status"], "by '[].status' the result is a list, by others not"),
        (["a.b[].c", "a.b.d"], "by 'a.b.d' a.b is an object, by others not"),
        (['["a\\"b"]'], "names with quotes, backslashes or control characters cannot be kept"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_a_sentence(paths, said):
    with pytest.raises(ToolDefinitionError) as caught:
        read_keep(paths)
    assert str(caught.value) == f"keep: {said}"


# Of any value, by any paths

names = st.sampled_from(["a", "b", "c", "d e", "…"])
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=25,
)
paths = st.lists(names | st.none(), min_size=1, max_size=3).map(tuple)
Place = tuple[str | int, ...]


def leaves(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Scalars, and empty lists and objects, with their places."""
    inner = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    if not inner:
        yield place, value
    for name, each in inner:
        yield from leaves(each, (*place, name))


def leads_to(path: tuple[str | None, ...], place: Place, value: Any) -> bool:
    """Whether the leaf at this place is kept by the path, or stands where it would go on."""
    met = all(name == part or (name is None and isinstance(part, int)) for name, part in zip(path, place, strict=False))
    return met and (len(path) <= len(place) or value is None or isinstance(value, str | list | dict))


def fits(value: Any, path: tuple[str | None, ...]) -> bool:
    """Whether there are lists and objects, null or text wherever the path expects to go on."""
    if not path or value is None or isinstance(value, str):
        return True
    if path[0] is None:
        return isinstance(value, list) and all(fits(item, path[1:]) for item in value)
    return isinstance(value, dict) and (path[0] not in value or fits(value[path[0]], path[1:]))


@st.composite
def kept_parts(draw: st.DrawFn) -> tuple[Any, list[tuple[str | None, ...]]]:
    """A value, and paths of which most lead somewhere in it."""
    value = draw(st.lists(values, min_size=1, max_size=4) | st.dictionaries(names, values, min_size=1, max_size=4))
    there = [tuple(None if isinstance(part, int) else part for part in place) for place, _ in leaves(value)]
    some = st.sampled_from(there).flatmap(lambda path: st.integers(1, len(path)).map(lambda end: path[:end]))
    return value, draw(st.lists(some, min_size=1, max_size=3)) + draw(st.lists(paths, max_size=1))


@settings(max_examples=200, deadline=None)
@given(drawn=kept_parts())
def test_parts_are_what_the_paths_lead_to_and_the_rest_can_be_read(drawn: tuple[Any, Any]) -> None:
    value, kept = drawn
    try:
        keep = read_keep([write_path(path) for path in kept])
    except ToolDefinitionError:
        assume(False)
    content = json.dumps(value, ensure_ascii=False)
    whole = dict(leaves(value))
    expected = {place: each for place, each in whole.items() if any(leads_to(path, place, each) for path in kept)}
    parts = keep.of(content)
    event("all" if parts is None else "parts")
    if parts is None:
        assert expected in ({}, whole) or not all(fits(value, path) for path in kept)
        return
    found = {place: each for place, each in leaves(json.loads(parts)) if each != {} or whole.get(place) == {}}
    assert json.dumps(sorted(found.items(), key=str)) == json.dumps(sorted(expected.items(), key=str))
    assert json.loads(keep.in_order(content)) == json.loads(parts)
    for place in whole.keys() - found.keys():
        read = part(content, write_path(place), 0, 100_000)
        assert (read if isinstance(whole[place], str) else json.loads(read)) == whole[place]
