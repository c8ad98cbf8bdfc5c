"""Cut results: what is still shown, what the marks say, and that following them gives everything back."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.errors import ToolError
from hotloop.models.sizes import text_tokens
from hotloop.tools.cutting.cut import cut, part

MARK = re.compile(r"([0-9,]+) of ([0-9,]+) (items|fields|characters) shown; path=(.*) start=([0-9]+)", re.S)
IN_TEXT = re.compile(rf"(.*)…\[{MARK.pattern}]", re.S)
NOTE = re.compile(rf"(.*)\n\[cut: {MARK.pattern}]", re.S)
ORDERS = {
    "user": {"id": 7, "name": "Ann"},
    "orders": [{"id": f"2025{n:04d}", "note": "Left at the door. " * (1 if n % 3 else 40)} for n in range(1000)],
    "total": 1000,
}


def gathered(content: str, first: str, tokens: int) -> Any:
    """The whole value, by following the marks in what was shown first."""

    def rest(path: str, start: str) -> str:
        return part(content, path, int(start), tokens)

    def text_from(piece: str) -> str:
        whole = ""
        while found := NOTE.fullmatch(piece):
            whole, piece = whole + found[1], rest(found[5], found[6])
        return whole + piece

    def value_of(shown: Any) -> Any:
        if isinstance(shown, str):
            found = IN_TEXT.fullmatch(shown)
            return shown if found is None else found[1] + text_from(rest(found[5], found[6]))
        if isinstance(shown, list):
            last = shown[-1] if shown else None
            found = MARK.fullmatch(str(last["…"])) if isinstance(last, dict) and last.keys() == {"…"} else None
            if found is None or found[3] != "items":
                return [value_of(item) for item in shown]
            return [value_of(item) for item in shown[:-1]] + value_of(json.loads(rest(found[4], found[5])))
        if isinstance(shown, dict):
            last = next(reversed(shown), "")
            found = MARK.fullmatch(str(shown[last])) if last and not last.strip("…") else None
            whole = {name: value_of(item) for name, item in shown.items() if found is None or name != last}
            return whole if found is None else whole | value_of(json.loads(rest(found[4], found[5])))
        return shown

    return value_of(json.loads(first)) if first[0] in "[{" else text_from(first)


# Everything can be got back

prose = st.lists(
    st.sampled_from(["word", "a, b", "Two. ", "三。", '"\\', "👩‍👩‍👧", "\n", "\n\n", "x" * 90, "\x07"])
).map(lambda words: " ".join(words * 7))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | prose
names = st.text(max_size=8) | st.sampled_from(["…", "……", "user id", 'quo"te', "a.b[0]"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(names, inner, max_size=8),
    max_leaves=60,
)
containers = st.lists(values, max_size=20) | st.dictionaries(names, values, max_size=20)


@settings(max_examples=100, deadline=None)
@given(value=containers, tokens=st.integers(50, 750), indent=st.none() | st.just(2), ascii_only=st.booleans())
def test_json_stays_json_within_its_tokens_and_its_marks_lead_to_all_of_it(
    value: Any, tokens: int, indent: int | None, ascii_only: bool
) -> None:
    content = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    shown = cut(content, tokens)
    assert text_tokens(shown) <= tokens
    assert type(json.loads(shown)) is type(value)
    assert gathered(content, shown, max(tokens, 125)) == value
    assert text_tokens(part(content, "$", 0, max(tokens, 125))) <= max(tokens, 125)


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=3000) | prose, tokens=st.integers(50, 225))
def test_text_is_within_its_tokens_and_its_notes_lead_to_all_of_it(text: str, tokens: int) -> None:
    content = f"Result: {text}"
    shown = cut(content, tokens)
    assert text_tokens(shown) <= tokens
    assert gathered(content, shown, tokens) == content


@pytest.mark.parametrize("word", ["word ", "汉字", "слово ", "😀 ", "汉字 with words "])
@pytest.mark.parametrize("of", [lambda text: text, lambda text: json.dumps({"text": text}, ensure_ascii=False)])
def test_most_of_the_tokens_are_used_in_whatever_script(word: str, of: Any) -> None:
    assert 950 <= text_tokens(cut(of(word * 5000), 1000)) <= 1000


def test_a_beginning_that_costs_more_than_the_rest_counts_as_what_it_is() -> None:
    content = json.dumps(["汉字" * 4] * 100 + ["word"] * 2000, ensure_ascii=False)
    assert 950 <= text_tokens(cut(content, 1000)) <= 1000


# What is shown


@pytest.mark.parametrize("content", ['{"a": [1, 2]}', "plain text", ""])
def test_what_fits_is_the_very_same(content: str) -> None:
    assert cut(content, text_tokens(content)) is content


def test_json_that_fits_without_its_spaces_is_whole() -> None:
    assert cut(json.dumps({"a": list(range(100))}, indent=4), 98) == json.dumps(
        {"a": list(range(100))}, separators=(",", ":")
    )


def test_items_are_whole_from_the_front_and_long_text_in_them_is_shortened() -> None:
    shown = json.loads(cut(json.dumps(ORDERS), 500))
    *orders, mark = shown["orders"]
    assert (shown["user"], shown["total"]) == (ORDERS["user"], 1000)
    assert orders[1:3] == ORDERS["orders"][1:3]
    assert re.fullmatch(
        r"(Left at the door\. )+…\[\d+ of 720 characters shown; path=\$\.orders\[0]\.note start=\d+]", orders[0]["note"]
    )
    assert mark == {"…": f"{len(orders)} of 1,000 items shown; path=$.orders start={len(orders)}"}


@pytest.mark.parametrize("tokens", range(400, 2000, 79))
def test_small_items_are_whole_or_missing_whatever_the_bound(tokens: int) -> None:
    orders = [
        {"sku": f"S{n:05d}", "name": "Lamp", "size": {"w": 1.5, "h": 2}, "note": "at the door"} for n in range(500)
    ]
    shown = cut(json.dumps({"status": "open", "orders": orders}), tokens)
    *items, _ = json.loads(shown)["orders"]
    assert items == orders[: len(items)]
    assert text_tokens(shown) > tokens - 50


def test_the_way_to_the_rest_is_told_once_and_at_the_end() -> None:
    shown = json.loads(cut(json.dumps(ORDERS), 500, "Call more."))
    assert list(shown)[-1] == "…" and shown["…"] == "Call more."
    assert cut(json.dumps(ORDERS["orders"]), 225, "Call more.").endswith(' start=6. Call more."}]')


def test_every_field_of_an_object_is_seen_before_one_is_seen_whole() -> None:
    pages = {f"page{n}": "All of the words. " * 500 for n in range(5)}
    shown = json.loads(cut(json.dumps(pages), 750))
    assert shown.keys() == pages.keys()
    assert len({len(page) for page in shown.values()}) == 1


@pytest.mark.parametrize("tokens", [75, 600, 25_000])
@pytest.mark.parametrize("of", [lambda text: text, lambda text: json.dumps({"id": 20250101, "text": text})])
def test_text_without_a_place_to_end_ends_between_characters(tokens: int, of: Any) -> None:
    shown = cut(of("QUJD" * 50_000), tokens)
    assert tokens - 15 <= text_tokens(shown) <= tokens


@pytest.mark.parametrize(
    ("before", "first"),
    [
        ("Ask the customer.", "Ask the customer."),
        ('He said "no."', 'He said "no."'),
        ("Ask Ann about ", "Ask Ann about "),
        ("One.\n\nTwo, ", "One.\n\nTwo, "),
        ("问客户。", "问客户。"),
        ("See version 3.", "See version "),
    ],
)
def test_before_a_word_without_end_all_that_reads_well_is_shown(before: str, first: str) -> None:
    word = ("1" if before.endswith("3.") else "z") * 200_000
    found = IN_TEXT.fullmatch(json.loads(cut(json.dumps({"error": before + word}), 600))["error"])
    assert found is not None
    assert found[1] == first
    assert part(before + word, "", len(first), 600).startswith(word[:1000] if first == before else "3.1")


def test_numbers_keep_all_their_digits() -> None:
    content = (
        '{"text": "' + "word " * 100 + '", "price": 1.10, "far": 12345678901234567890.123456789012345678, "big": 1e999}'
    )
    assert cut(content, 60).endswith('"price":1.10,"far":12345678901234567890.123456789012345678,"big":1e999}')


def test_what_lies_too_deep_is_a_mark() -> None:
    value: Any = list(range(200))
    for _ in range(30):
        value = {"in": value}
    shown = cut(json.dumps(value), 125)
    assert "0 of 1 fields shown; path=$.in.in" in shown
    assert gathered(json.dumps(value), shown, 125) == value


@pytest.mark.parametrize(
    ("unit", "end"),
    [
        ("Some words. More words.\nA line.\n\n", "line.\n\n"),
        ("Some words. More words.\nA line.\r\n", "line.\r\n"),
        ("Some words are here. ", ". "),
        ("many words ", " "),
        ("第一句话在这里。第二句，", "。"),
        ("一二三四五", ("一", "二", "三", "四", "五")),
    ],
)
@pytest.mark.parametrize("tokens", range(75, 78))
def test_text_ends_where_it_reads_well(unit: str, end: str | tuple[str, ...], tokens: int) -> None:
    found = NOTE.fullmatch(cut(unit * 100, tokens))
    assert found is not None
    assert found[1].endswith(end) and text_tokens(found[1]) > 25


@pytest.mark.parametrize(
    "unit", ["e\u0301", "👩‍👩‍👧", "👍🏽", "❤\ufe0f", "🇩🇪", "\ud83d\ude00", "\r\n", "🏴\U000e0067\U000e007f"]
)
@pytest.mark.parametrize("tokens", range(75, 82))
def test_no_character_is_split(unit: str, tokens: int) -> None:
    found = NOTE.fullmatch(cut(unit * 300, tokens))
    assert found is not None
    assert found[1] == unit * (len(found[1]) // len(unit)) != ""


def test_a_note_says_how_much_is_shown_and_how_to_go_on() -> None:
    assert cut("word " * 1000, 50, "Call more.").endswith(
        "word \n[cut: 130 of 5,000 characters shown; path=$ start=130. Call more.]"
    )


@pytest.mark.parametrize("content", ["word " * 100, json.dumps(ORDERS)])
def test_a_tiny_bound_is_kept_without_the_note(content: str) -> None:
    assert 70 < len(cut(content, 25)) < 180


def test_json_nested_too_deep_to_read_is_cut_as_text() -> None:
    assert NOTE.fullmatch(cut("[" * 200_000 + "]" * 200_000, 75))


@pytest.mark.parametrize(
    "content",
    [
        json.dumps([{"id": n, "score": n / 7, "text": "some words here"} for n in range(190_000)]),
        json.dumps({"a": {"b": {"c": "word " * 2_000_000}}}),
        "word " * 2_000_000,
        "\u0301" * 10_000_000,
    ],
    ids=["items", "inner text", "text", "marks"],
)
def test_ten_megabytes_take_well_under_a_second(content: str) -> None:
    begun = time.process_time()
    cut(content, 5_000)
    assert time.process_time() - begun < 1


# The rest


@pytest.mark.parametrize(
    ("path", "start", "expected"),
    [
        ("user", 0, '{"id":7,"name":"Ann"}'),
        ("$.user", 1, '{"name":"Ann"}'),
        ("user.name", 0, "Ann"),
        ("user.name", 1, "nn"),
        ("total", 0, "1000"),
        ("orders[-1].id", 0, "20250999"),
        ("orders[*].id", 998, '["20250998","20250999"]'),
        ("orders[1]['note']", 0, "Left at the door. "),
    ],
)
def test_a_part_of_a_result(path: str, start: int, expected: str) -> None:
    assert part(json.dumps(ORDERS), path, start, 125) == expected


def test_marks_in_items_gathered_from_everywhere_name_their_own_places() -> None:
    shown = json.loads(part(json.dumps(ORDERS), "orders[*].note", 3, 100))
    assert "path=$.orders[3].note start=" in shown[0]
    assert shown[-1]["…"].endswith(f"path=$.orders[*].note start={2 + len(shown)}")


def test_text_goes_on_where_it_was_cut() -> None:
    assert part("one two three", "", 4, 125) == "two three"


def test_a_part_shows_something_even_if_that_is_too_long() -> None:
    content = json.dumps({"k" * 900: [1], "b": 2})
    assert json.loads(part(content, "", 0, 75)) == {
        "k" * 900: [1],
        "…": "1 of 2 fields shown; path=$ start=1",
    }


@pytest.mark.parametrize(
    ("content", "path", "start", "words"),
    [
        ('{"items": [1]}', "itmes", 0, '$ has no "itmes"; it has: items (did you mean items?)'),
        ('{"items": [1]}', "items[3]", 0, "$.items has 1 item, so there is no [3]"),
        ('{"items": [1]}', "items", 1, "$.items has 1 items, so that nothing starts at 1."),
        ('{"items": [1]}', "items", -1, "$.items has 1 items, so that nothing starts at -1."),
        ("plain text", "items", 0, "$ is text, so it has no .items"),
        ("plain text", "", 10, "$ has 10 characters, so that nothing starts at 10."),
        ("{}", "a..b", 0, "'a..b' is no path; write one like items[0].id, items[*].id or [\"odd name\"]"),
    ],
)
def test_a_path_that_leads_nowhere_says_what_is_there(content: str, path: str, start: int, words: str) -> None:
    with pytest.raises(ToolError) as caught:
        part(content, path, start, 500)
    assert str(caught.value) == words


@pytest.mark.parametrize(("content", "expected"), [("[]", "[]"), ("{}", "{}"), ("", "")])
def test_all_of_nothing(content: str, expected: str) -> None:
    assert part(content, "$", 0, 500) == expected
