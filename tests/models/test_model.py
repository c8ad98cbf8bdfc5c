"""Models, declared: what cannot be one is said at once, where it is, and that nothing secret is printed."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hotloop import Model, Policy
from hotloop.errors import ConfigError
from hotloop.testing import ScriptedModel


def model(**given: Any) -> Model:
    return Model(**{"name": "m", "endpoint": "http://host:8000/v1", **given})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": ""}, "Model(name=...): expected some text."),
        ({"name": 5}, "Model(name=...): expected text, got a whole number."),
        ({"name": "\ud800"}, "Model(name=...): expected text, got half of a character"),
        ({"endpoint": None}, 'The endpoint is None; give a URL, "local" or a Transport.'),
        ({"endpoint": b"http://host"}, "The endpoint is b'http://host'; give a URL"),
        ({"endpoint": ""}, "The endpoint '' is no URL"),
        ({"endpoint": "host:8000"}, "The endpoint 'host:8000' is no URL"),
        ({"endpoint": "http://host:port"}, "The endpoint 'http://host:port' is no URL"),
        ({"api_key": 5}, "Model(api_key=...): expected text, got a whole number."),
        ({"headers": {"a": 1}}, "Model(headers[...]=...): expected text, got a whole number."),
        ({"headers": {1: "a"}}, "Model(headers=...): expected text, got a whole number, as a key."),
        ({"headers": [1]}, "Model(headers=...): expected keys with values, got a list."),
        ({"dialect": "klingon"}, "There is no dialect 'klingon'"),
        ({"dialect": 5}, "Model(dialect=...): expected text, got a whole number."),
        ({"temperature": "hot"}, "Model(temperature=...): expected a number, got text."),
        ({"temperature": math.inf}, "Model(temperature=...): expected a number <= 1000000000."),
        ({"max_tokens": -5}, "Model(max_tokens=...): expected a whole number >= 1."),
        ({"price_in": "x"}, "Model(price_in=...): expected a number, got text."),
        ({"price_out": math.nan}, "Model(price_out=...): expected a number >= 0."),
        ({"policy": None}, "Model(policy=...): make it with Policy(...)."),
        ({"policy": {"retries": 1}}, "Model(policy=...): make it with Policy(...)."),
    ],
)
def test_what_cannot_be_a_model_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        model(**given)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://me:hunter2@host/v1",
        "http://hunter2@host/v1",
        "me:hunter2@host/v1",
        "http://me:hunter2/v1@host",
        "http://me:hunter2@host:port/v1",
        "http://host:port/v1?key=hunter2",
        "http://ho st/v1?key=hunter2 and more",
        "host/v1?key=hunter2",
    ],
)
def test_an_endpoint_that_is_refused_shows_no_secret(endpoint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        model(endpoint=endpoint)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("endpoint", "where"),
    [
        ("http://host:8000/v1?key=hunter2", "host:8000"),
        ("https://api.groq.com/openai/v1", "api.groq.com"),
        ("http://[::1]:8000", "[::1]:8000"),
        ("unix:/run/model.sock", "/run/model.sock"),
        ("http+unix://%2Frun%2Fmodel.sock/v1", "/run/model.sock"),
        ("local", "local"),
        (ScriptedModel([]), "ScriptedModel"),
    ],
)
def test_where_it_is_says_host_and_port(endpoint: Any, where: str) -> None:
    assert model(endpoint=endpoint).where == where


def test_a_printed_model_shows_what_was_said_of_it_and_no_secret() -> None:
    said = model(
        endpoint="http://host/v1?key=hunter2", api_key="hunter2", headers={"x-key": "hunter2"}, policy=Policy(retries=0)
    )
    assert repr(said).startswith(
        "Model(name='m', endpoint='http://host/v1?***', api_key='***', headers={'x-key': '***'}, policy=Policy("
    )
    assert "hunter2" not in f"{said} {said!r} {[said]}"


def test_the_key_is_that_of_the_service_unless_one_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", " key\n")
    groq = {"endpoint": "https://api.groq.com/openai/v1"}
    assert [model(**groq).key, model(**groq, api_key="own").key, model(**groq, api_key="").key, model().key] == [
        "key",
        "own",
        "",
        "",
    ]
