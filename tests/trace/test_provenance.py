"""Which results the arguments of a call were taken from."""

from datetime import date
from typing import Any

import pytest

from hotloop.trace.ledger import Spoken, Words
from hotloop.trace.recording.provenance import sources


def found(
    *calls: tuple[str | dict[str, Any], str], prompt: str = "Where is order A-17?"
) -> list[tuple[str, ...] | None]:
    """The sources of each call, given as its arguments and its result."""
    spoken = [Spoken(str(place), arguments, result) for place, (arguments, result) in enumerate(calls)]
    return list(sources(Words(prompt, spoken)).values())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"id": "A-17"}, ()),
        ({"parcel": 'P "9"'}, ("0",)),
        ('{"parcel": "P \\"9\\""}', ("0",)),
        ({"deep": [{"code": 5512}], "id": "A-17"}, ("0",)),
        ({"unit": "metric", "most": 20, "exact": True, "of": None}, ()),
        ({"query": "shipping policy"}, None),
        ({"day": date(2026, 5, 3)}, None),
        ({}, ()),
        ("no JSON", None),
    ],
)
def test_what_a_call_took_its_arguments_from(arguments: str | dict[str, Any], told: tuple[str, ...] | None) -> None:
    assert found(({"id": "A-17"}, '{"parcel": "P \\"9\\"", "code": 5512}'), (arguments, ""))[1] == told


def test_what_was_said_before_needs_no_newer_result() -> None:
    first, second, third = {"id": "A-17"}, {"parcel": "P-9"}, {"parcel": "P-9"}
    assert found((first, "P-9"), (second, "P-9 C-1"), (third, "")) == [(), ("0",), ("0",)]
    assert found(({"x": "Z-1"}, ""), ({"x": "Z-1"}, "")) == [None, ()]


def test_a_step_of_a_plan_counts_as_its_call() -> None:
    spoken = [Spoken("c1.step", {}, "P-9"), Spoken("c2", {"parcel": "P-9"}, "")]
    assert sources(Words("?", spoken))["c2"] == ("c1",)


def test_text_that_is_no_text_does_no_harm() -> None:
    assert found(({"x": "\ud800 broken"}, ""), ("[" * 100_000, "")) == [None, None]
