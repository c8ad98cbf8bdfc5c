from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr

from hotloop.hiding import masked_text
from hotloop.tools.audit.masking import masked

LONG = "a" * 3_000


@dataclass
class Login:
    user: str
    password: str


class Account(BaseModel):
    name: str
    key: SecretStr
    login: Login


class Node(msgspec.Struct):
    api_key: str
    next: Node | None = None


class Colour(Enum):
    RED = "red"


class Opaque:
    def __repr__(self) -> str:
        return "hunter2"


def test_parameters_that_the_tool_calls_secret():
    assert masked({"number": "4111", "name": "Ann"}, {"number"}) == {"number": "***", "name": "Ann"}


@pytest.mark.parametrize(
    "names",
    [
        "password db_password userPassword passwd pwd passphrase secret client_secret clientSecret credentials",
        "token access_token sessionToken api_key apiKey APIKey APIkey apikey X-Api-Key proxy-authorization jwt",
        "private_key privateKey secret_access_key cookie Set-Cookie pin PIN cardPin pin2 cvv otp card_number 新密码",
    ],
)
def test_names_that_say_secret(names):
    for name in names.split():
        assert masked({name: "x", "inner": [{name: {"deep": 1}}]}, ()) == {name: "***", "inner": [{name: "***"}]}


@pytest.mark.parametrize(
    "names",
    [
        "tokens_used max_tokens tokenizer author authority unauthorized pinned opinion spin shipping passport",
        "key keyword primary_key bypass compass order_id 订单",
    ],
)
def test_names_that_do_not(names):
    for name in names.split():
        assert masked({name: "x"}, ()) == {name: "x"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("use sk-proj-abcDEF0123456789abcdef now", "use *** now"),
        ("sk-ant-api03-AbC_d-123456789012345", "***"),
        ("Authorization: Bearer abc.def-123", "Authorization: Bearer ***"),
        ("curl -H 'authorization: bearer xyz' http://h", "curl -H 'authorization: bearer ***' http://h"),
        ("Basic dXNlcjpwYXNzMTIz=", "Basic ***"),
        ("ghp_0123456789abcdefghijABCDEFGHIJ012345", "***"),
        ("github_pat_11ABCDEFG0123456789_abcdef", "***"),
        ("key AKIAIOSFODNN7EXAMPLE.", "key ***."),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "***"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\nAB==\n-----END RSA PRIVATE KEY-----\nand on", "***\nand on"),
        ("-----BEGIN PRIVATE KEY-----\ncut off", "***"),
        ("postgres://ann:p@ss:w@db.example:5432/shop", "postgres://***@db.example:5432/shop"),
        ("https://h/x?api_key=abc&page=2", "https://h/x?api_key=***&page=2"),
        ('{"password": "two words", "page": 2}', '{"password": "***", "page": 2}'),
        ('{\\"token\\":\\"abc\\"}', '{\\"token\\":\\"***"}'),
        ("Server=db;Password=hunter2;Port=1", "Server=db;Password=***;Port=1"),
    ],
)
def test_secrets_inside_texts(text, shown):
    expected = {"text": shown, "inner": {"list": [shown]}}
    assert masked({"text": text, "inner": {"list": [text]}}, ()) == expected
    assert list(masked({"names": {text: 1}}, ())["names"]) == [shown]
    assert masked_text(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "risk-assessment-of-2025-and-more",
        "sk-learn-tutorial-for-beginners",
        "https://example.com:8080/a@b",
        "mail ann@example.com at 12:30",
        "basic information only",
        "AKIA is a prefix",
        "max_tokens=2048",
        "查询订单 20250101",
    ],
)
def test_texts_that_are_none(text):
    assert masked_text(text) == text


def test_values_without_a_form_in_json_are_shown_as_their_type():
    loop: list[object] = []
    loop.append(loop)
    values = {"a": Opaque(), "b": SecretStr("hunter2"), "c": b"hunter2", "d": [Opaque()], "e": loop, "f": {(1, 2): 3}}
    shown = masked(values, ())
    assert shown == {
        "a": "<Opaque>",
        "b": "<SecretStr>",
        "c": "<bytes>",
        "d": ["<Opaque>"],
        "e": "<list>",
        "f": "<dict>",
    }


def test_objects_are_looked_into():
    account = Account(name="Ann", key=SecretStr("hunter2"), login=Login("ann", "hunter2"))
    values = {"account": account, "node": Node("k", Node("l")), "colour": Colour.RED, "day": date(2025, 1, 7)}
    assert masked(values | {"price": Decimal("1.10"), "ids": {7}, "n": 2**80, "yes": True, "no": None}, ()) == {
        "account": {"name": "Ann", "key": "<SecretStr>", "login": {"user": "ann", "password": "***"}},
        "node": {"api_key": "***", "next": {"api_key": "***", "next": None}},
        "colour": "red",
        "day": "2025-01-07",
        "price": "1.10",
        "ids": [7],
        "n": 2**80,
        "yes": True,
        "no": None,
    }


def test_deep_arguments_are_cut():
    deep: object = "bottom"
    for _ in range(200):
        deep = [{"in": deep}]
    shown = json.dumps(masked({"deep": deep}, ()))
    assert (shown.count("["), shown.count("<list>")) == (16, 1)


def test_long_texts_are_cut_with_their_length():
    assert masked_text("a" * 2_000) == "a" * 2_000
    assert masked_text(LONG) == "a" * 2_000 + "… (3,000 characters)"


@given(st.integers(1_900, 2_600))
def test_a_cut_shows_no_part_of_a_key(place):
    key = "sk-proj-" + "Zz09" * 100
    assert "Zz" not in masked_text("." * place + key + "." * 1_000)


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text() | st.binary() | st.just(Opaque()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner),
)


@given(st.dictionaries(st.text(), _JSON | st.text(st.characters(categories=["Cs"]))))
def test_anything_becomes_json(arguments):
    shown = msgspec.json.encode(masked(arguments, ()))
    assert b"hunter2" not in shown
    assert json.loads(shown).keys() <= {name.encode(errors="replace").decode() for name in arguments}
