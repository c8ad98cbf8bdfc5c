"""Which name was meant, which there are, what is cut, which name is free."""

from __future__ import annotations

import pytest

from hotloop.words import counted, did_you_mean, free_name, listed, short

NAMES = ["user_id", "name"]


@pytest.mark.parametrize(("name", "said"), [("user_idd", "; did you mean user_id?"), ("x", ""), ("x" * 1_000_000, "")])
def test_what_was_meant(name, said):
    assert did_you_mean(name, [*NAMES, "x" * 1_000_000]) == said


@pytest.mark.parametrize(
    ("name", "names", "said"),
    [
        ("x", NAMES, "user_id, name"),
        ("nam", iter(NAMES), "user_id, name (did you mean name?)"),
        ("x", [], "nothing"),
        ("x", ["y" * 61], f"{'y' * 60}…"),
        ("a", [f"n{number}" for number in range(1_020)], f"{', '.join(f'n{n}' for n in range(20))} and 1,000 more"),
    ],
)
def test_what_there_is(name, names, said):
    assert listed(name, names) == said


def test_a_text_is_cut_only_if_it_is_too_long():
    assert [short("abc", 3), short("abcd", 3)] == ["abc", "abc…"]


@pytest.mark.parametrize(
    ("wanted", "taken", "free"),
    [
        ("order", [], "order"),
        ("order", ["order", "order_2"], "order_3"),
        ("x" * 70, [], "x" * 64),
        ("x" * 70, ["x" * 64], "x" * 60 + "_2"),
    ],
)
def test_a_name_that_is_free(wanted, taken, free):
    assert free_name(wanted, taken) == free


@pytest.mark.parametrize(("number", "said"), [(0, "0 runs"), (1, "1 run"), (1204, "1,204 runs")])
def test_how_many_there_are(number, said):
    assert counted(number, "run") == said
