"""Steps found in a plan that is still arriving: each exactly once, and as soon as it is closed."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.tools.plan.scanner import StepScanner

texts = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(
    ['"', "\\", '\\"', "}]", "😀", "steps", "{"]
)
values = st.recursive(
    st.none() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts | st.just("steps"), inner, max_size=3),
    max_leaves=6,
)
steps_ = st.dictionaries(st.sampled_from(["id", "tool", "arguments", "steps"]), values)
others = st.dictionaries(texts.filter(lambda key: key != "steps"), values | st.just([{"id": "no"}]), max_size=2)
spaces = st.sampled_from(["", " ", "\n\t", "\r\n  "])


@st.composite
def plans(draw: st.DrawFn) -> tuple[str, list[Any], list[int]]:
    """The text of a plan, its steps, and where in the text each ends."""
    style = draw(st.sampled_from([{}, {"indent": 1}, {"separators": (",", ":")}, {"ensure_ascii": False}]))

    def space() -> str:
        return draw(spaces)

    def members(of: dict[str, Any]) -> list[str]:
        return [
            f"{json.dumps(key)}{space()}:{space()}{json.dumps(value, **style)}{space()}" for key, value in of.items()
        ]

    before, after, steps = members(draw(others)), members(draw(others)), draw(st.lists(steps_, max_size=4))
    key = draw(st.sampled_from(['"steps"', '"st\\u0065ps"']))
    text = (
        f"{space()}{{{space()}{''.join(f'{member},{space()}' for member in before)}{key}{space()}:{space()}[{space()}"
    )
    ends = []
    for at, step in enumerate(steps):
        text += f",{space()}" * bool(at) + json.dumps(step, **style)
        ends.append(len(text))
        text += space()
    text += "]" + space() + "".join(f",{space()}{member}" for member in after) + "}" + space()
    return text, steps, ends


def cut(draw: st.DrawFn, text: str) -> list[str]:
    at = sorted(draw(st.lists(st.integers(0, len(text)), max_size=30)))
    return [text[start:stop] for start, stop in itertools.pairwise([0, *at, len(text)])]


@given(st.data())
def test_each_step_is_found_with_its_last_character(data: st.DataObject) -> None:
    text, steps, ends = data.draw(plans())
    assert json.loads(text)["steps"] == steps
    for fragments in (list(text), [text], cut(data.draw, text)):
        scanner, fed, found = StepScanner(), 0, []
        for fragment in fragments:
            new = scanner.feed(fragment)
            assert len(new) == sum(fed < end <= fed + len(fragment) for end in ends)
            fed += len(fragment)
            found += new
        assert [json.loads(step) for step in found] == steps


@given(st.data())
def test_any_text_is_taken_and_only_whole_objects_come_out(data: st.DataObject) -> None:
    text = list(data.draw(plans())[0])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + data.draw(st.integers(0, 3))] = data.draw(st.text('"\\{}[],:x', max_size=3))
    whole = StepScanner().feed("".join(text))
    scanner = StepScanner()
    assert [step for fragment in cut(data.draw, "".join(text)) for step in scanner.feed(fragment)] == whole
    assert all(isinstance(json.loads(step), dict) for step in whole)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        'x{"steps": [{}]}',
        '"{\\"steps\\": [{}]}"',
        '[{"steps": [{}]}]',
        '[{"id": 1}]',
        '{"plan": {"steps": [{}]}}',
        '{"steps": {"steps": [{}]}}',
        '{"steps": [[{}]]}',
        '{"steps": "[{}]"}',
        '{"x": "steps", "y": [{}]}',
        '{"steps": 5, "y": [{}]}',
        '{"steps": 5 [{}]}',
        '{"steps" [{}]}',
        '{"steps": [5, {}]}',
        '{"steps": [, {}]}',
        '{"steps": [{"a": ]}',
        '{"steps": [{"a" 1}]}',
        '{"steps": [{"a": [}]}]}',
        '{"steps": [{"a": "\ud800"}]}',
        '{}{"steps": [{}]}',
        '{"a": 1]}, "steps": [{}]}',
        '{"steps": [' + '{"a": ' * 100_000 + "1" + "}" * 100_000 + "]}",
    ],
)
def test_what_is_no_plan_yields_nothing(text: str) -> None:
    scanner = StepScanner()
    assert [step for char in text for step in scanner.feed(char)] == []


@pytest.mark.parametrize(
    "text", ['{"steps": [{"a": 1}{}]}', '{"steps": [{"a": 1}, 5, {}]}', '{"steps": [{"a": 1}, {]}']
)
def test_nothing_comes_from_behind_a_fault(text: str) -> None:
    assert StepScanner().feed(text) == ['{"a": 1}']


def test_the_work_for_a_character_does_not_grow() -> None:
    def seconds(size: int) -> float:
        scanner, text = StepScanner(), '{"steps": [{"a": "' + "x" * size + '"}]}'
        begun = time.process_time()
        assert len([step for char in text for step in scanner.feed(char)]) == 1
        return time.process_time() - begun

    assert seconds(400_000) < 40 * seconds(40_000)
