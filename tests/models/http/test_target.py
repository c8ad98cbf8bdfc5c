"""Endpoints: what users write, and where that is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.errors import ConfigError
from hotloop.models.dialects import DIALECTS, dialect_of
from hotloop.models.http.target import Target, chat_url, parse_target


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("https://api.groq.com/openai/v1", "https://api.groq.com/openai/v1/chat/completions"),
        ("https://api.groq.com/openai/v1/", "https://api.groq.com/openai/v1/chat/completions"),
        ("http://gw/v1/chat/completions", "http://gw/v1/chat/completions"),
        ("http://gw/v1/chat/completions/", "http://gw/v1/chat/completions"),
        ("http://localhost:8000", "http://localhost:8000/v1/chat/completions"),
        ("http://localhost:8000/", "http://localhost:8000/v1/chat/completions"),
        ("https://x.example/d/m?api-version=2", "https://x.example/d/m/chat/completions?api-version=2"),
        (
            "https://x.example/d/m/chat/completions?api-version=2",
            "https://x.example/d/m/chat/completions?api-version=2",
        ),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1/chat/completions"),
        ("http+unix://%2Frun%2Fm.sock", "http+unix://%2Frun%2Fm.sock/v1/chat/completions"),
        ("http+unix://%2Frun%2Fm.sock/api", "http+unix://%2Frun%2Fm.sock/api/chat/completions"),
        ("unix:/run/m.sock", "unix:/run/m.sock"),
    ],
)
def test_a_base_url_or_the_full_one(endpoint, url):
    assert chat_url(endpoint) == url
    assert chat_url(url) == url
    parse_target(url)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://gw/v1", Target("gw", 80, False, "/v1", "gw")),
        ("https://gw/v1", Target("gw", 443, True, "/v1", "gw")),
        ("https://GW.example:8443/v1?a=b", Target("gw.example", 8443, True, "/v1?a=b", "GW.example:8443")),
        ("http://[::1]:8000/v1", Target("::1", 8000, False, "/v1", "[::1]:8000")),
        ("http://gw", Target("gw", 80, False, "/", "gw")),
        ("unix:/run/m.sock", Target("localhost", 0, False, "/v1/chat/completions", "localhost", "/run/m.sock")),
        ("unix:///run/m.sock", Target("localhost", 0, False, "/v1/chat/completions", "localhost", "/run/m.sock")),
        ("http+unix://%2Frun%2FM.sock/v1", Target("localhost", 0, False, "/v1", "localhost", "/run/M.sock")),
    ],
)
def test_where_that_is(url, target):
    assert parse_target(url) == target


@pytest.mark.parametrize(
    "url",
    [
        "",
        "gw",
        "localhost:8000",
        "ftp://gw/v1",
        "http://",
        "http:///v1",
        "http://gw:port/v1",
        "http://gw:99999/v1",
        "http://[::1/v1",
        "http://gw/a b",
        "http://g w/v1",
        "http://user:secret@gw/v1",
    ],
)
def test_what_is_no_endpoint(url):
    with pytest.raises(ConfigError) as caught:
        parse_target(chat_url(url))
    assert "secret" not in str(caught.value)


@given(st.text(max_size=30) | st.text(alphabet="htps:/[]@?#%.0129 \n\t", max_size=30))
def test_any_text_is_an_endpoint_or_a_config_error(url):
    try:
        dialect_of(url)
        target = parse_target(chat_url(url))
    except ConfigError:
        return
    line = f"POST {target.path} HTTP/1.1"
    assert line.split() == ["POST", target.path, "HTTP/1.1"]
    assert "\n" not in target.authority


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://api.groq.com/openai/v1", "groq"),
        ("https://API.GROQ.COM/openai/v1", "groq"),
        ("https://api.deepseek.com", "deepseek"),
        ("http://localhost:11434/v1", "ollama"),
        ("http://gpu-7:30000/v1", "sglang"),
        ("http://localhost:8000/v1", "generic"),
        ("https://api.groq.com.evil.example/v1", "generic"),
        ("https://evil.example/api.groq.com", "generic"),
        ("unix:/run/m.sock", "generic"),
        ("local", "local"),
    ],
)
def test_the_dialect_that_a_url_tells(url, name):
    assert dialect_of(url).name == name
    assert dialect_of(url, "vllm").name == "vllm"


def test_a_dialect_that_does_not_exist():
    with pytest.raises(ConfigError, match="groq"):
        dialect_of("http://gw/v1", "grok")


@pytest.mark.parametrize("url", ["http://gw:port/v1", "http://[::1/v1"])
def test_a_broken_url_has_no_dialect(url):
    with pytest.raises(ConfigError):
        dialect_of(url)


def test_every_dialect_is_known_by_its_name():
    assert all(dialect.name == name for name, dialect in DIALECTS.items())
    assert set(DIALECTS) >= {"openai", "groq", "vllm", "sglang", "llamacpp", "ollama", "dynamo", "generic"}
