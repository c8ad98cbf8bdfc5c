from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel

from hotloop.trace.ledger import Spoken, Words
from hotloop.trace.record import Said
from hotloop.trace.recording import digests
from hotloop.trace.recording.digests import digest, said_in


@dataclass
class Address:
    street: str


class Person(BaseModel):
    name: str


class Odd:
    def __str__(self) -> str:
        raise ValueError("no text")


def call(arguments: Any, result: str = "{}", content: bool = False) -> Said:
    _, _, calls = said_in(Words("Go.", [Spoken("call00001", arguments, result)]), content)
    return calls["call00001"]


@pytest.fixture(params=[True, False], ids=["python's", "blake2b"])
def way(request, monkeypatch) -> None:
    """Either way in which a digest is made."""
    monkeypatch.setattr(digests, "_KEYED", request.param)


@pytest.mark.usefixtures("way")
def test_equal_texts_have_equal_digests():
    texts = ["", "a", "b", "Where is order 7?", "订单", "\ud800", "x" * 100_000]
    assert len({digest(text) for text in texts}) == len(texts)
    assert [digest(str(text.encode("utf-8", "surrogatepass"), "utf-8", "surrogatepass")) for text in texts] == [
        digest(text) for text in texts
    ]
    assert all(len(digest(text)) == 16 and int(digest(text), 16) >= 0 for text in texts)


@pytest.mark.parametrize("seed", [None, "0", "1", "random"])
def test_no_other_process_has_the_same(seed):
    """Not even where somebody has chosen the seed of Python's hashes."""
    code = "from hotloop.trace.recording.digests import digest; print(digest('Where is order 7?'))"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    if seed is not None:
        environment["PYTHONHASHSEED"] = seed
    told = [subprocess.check_output([sys.executable, "-c", code], env=environment) for _ in range(2)]
    assert told[0] != told[1]


def test_arguments_are_the_same_in_any_order():
    assert call({"a": 1, "b": {"c": [2], "d": 3}}) == call({"b": {"d": 3, "c": [2]}, "a": 1})
    assert call({"a": 1}) != call({"a": 2})


@pytest.mark.parametrize(
    ("make", "other"),
    [
        (lambda: {"at": date(2026, 1, 1)}, {"at": date(2026, 1, 2)}),
        (lambda: {"to": Address("High St")}, {"to": Address("Low St")}),
        (lambda: {"whom": Person(name="Ann")}, {"whom": Person(name="Bob")}),
        (lambda: {"some": {"a", "b", "c"}}, {"some": {"a", "b"}}),
        (lambda: '{"broken', '{"broken"'),
    ],
)
def test_arguments_of_any_type_have_digests(make: Callable[[], Any], other):
    assert call(make()).digest == call(make()).digest != call(other).digest


def test_arguments_that_have_no_text_have_one_all_the_same():
    assert len(call({"odd": Odd()}).digest) == 16


def test_sizes_are_bytes():
    assert call({}, "abc").size == 3
    assert call({}, "订单").size == 6
    prompt, answer, _ = said_in(Words("né", [], ""), False)
    assert (prompt.size, answer) == (3, None)


def test_words_only_if_they_are_wanted():
    words = Words("Go.", [Spoken("call00001", {"order": 7}, "shipped")], "It is.")
    prompt, answer, calls = said_in(words, False)
    assert [prompt.text, answer.text, calls["call00001"].text, calls["call00001"].result] == [None] * 4
    prompt, answer, calls = said_in(words, True)
    told = [prompt.text, answer.text, calls["call00001"].text, calls["call00001"].result]
    assert told == ["Go.", "It is.", '{"order":7}', "shipped"]


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (
            '{"api_key":"abc","items":[{"token":1,"name":"Ann"}]}',
            '{"api_key":"***","items":[{"token":"***","name":"Ann"}]}',
        ),
        ("Use Bearer abcdef123456 or password=hunter22.", "Use Bearer *** or password=***"),
        ("postgres://ann:hunter22@db/orders", "postgres://***@db/orders"),
        ('{"broken": "sk-abcdefghijklmnop1234"', '{"broken": "***"'),
    ],
)
def test_words_are_without_secrets(result, shown):
    assert call({"password": "hunter22"}, result, content=True).text == '{"password":"***"}'
    assert call({}, result, content=True).result == shown


def test_long_words_are_cut():
    shown = call({}, "x" * 200_000, content=True).result
    assert shown.endswith("x… (200,000 characters)")
    assert 99_000 < len(shown) < 101_000
