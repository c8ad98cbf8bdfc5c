"""Request bodies: what is in them, and that their first part never changes by a byte."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.models.dialects import DIALECTS
from hotloop.models.request import RequestTemplate

MESSAGES = b'{"role":"user","content":"hi"}'
TOOLS = [b'{"type":"function","function":{"name":"f"}}', b'{"type":"function","function":{"name":"g"}}']


def body(dialect="generic", messages=MESSAGES, tools=True, max_tokens=None, offered=TOOLS, **options):
    template = RequestTemplate("m", DIALECTS[dialect], offered, **options)
    return template.body(messages, tools=tools, max_tokens=max_tokens)


def test_what_is_asked():
    request = json.loads(body(temperature=0.0, max_tokens=7))
    assert request == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.0,
        "tools": [json.loads(tool) for tool in TOOLS],
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 7,
    }


def test_what_is_not_set_is_left_out():
    """Services refuse nulls."""
    for dialect in DIALECTS:
        request = json.loads(body(dialect, offered=(), stream=False))
        assert None not in request.values()
        assert set(request) <= {"model", "stream", "messages", "prompt_cache_key"}
        assert "tool_choice" not in json.loads(body(dialect, offered=(), tools=False))


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_every_body_is_json_and_begins_the_same(dialect):
    template = RequestTemplate("m", DIALECTS[dialect], TOOLS, temperature=0.2, max_tokens=9)
    grown = [b",".join([MESSAGES] * count) for count in (1, 2, 3)]
    bodies = [template.body(each) for each in grown]
    assert [len(json.loads(each)["messages"]) for each in bodies] == [1, 2, 3]
    common = bodies[0][: bodies[0].index(MESSAGES) + len(MESSAGES)]
    assert all(each.startswith(common) for each in bodies)
    cap = DIALECTS[dialect].max_tokens
    assert json.loads(template.body(MESSAGES))[cap] == 9
    assert json.loads(template.body(MESSAGES, max_tokens=18))[cap] == 18


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_an_answer_without_calls(dialect):
    request = json.loads(body(dialect, tools=False))
    if DIALECTS[dialect].forbids_tools:
        assert request["tool_choice"] == "none"
        assert body(dialect, tools=False).startswith(body(dialect)[: body(dialect).index(MESSAGES)])
    else:
        assert "tools" not in request
        assert "tool_choice" not in request


def test_the_prefix_cache():
    assert json.loads(body("llamacpp", prefix_cache=False))["cache_prompt"] is False
    assert "cache_prompt" not in json.loads(body("llamacpp"))
    key = json.loads(body("openai"))["prompt_cache_key"]
    assert key == json.loads(body("openai", messages=MESSAGES + b"," + MESSAGES))["prompt_cache_key"]
    assert key != json.loads(body("openai", offered=TOOLS[:1]))["prompt_cache_key"]
    assert "prompt_cache_key" not in json.loads(body("openai", prefix_cache=False))


STICKY = {
    "openai": lambda request: request.get("prompt_cache_key"),
    "sglang": lambda request: request.get("session_id"),
    "dynamo": lambda request: request.get("nvext", {}).get("session_control", {}).get("session_id"),
}


def key_of(dialect, session, offered=TOOLS, **options):
    template = RequestTemplate("m", DIALECTS[dialect], offered, **options)
    return STICKY[dialect](json.loads(template.body(MESSAGES, session=session)))


@pytest.mark.parametrize("dialect", STICKY)
def test_a_session_keeps_its_key_and_nobody_learns_whose_it_is(dialect):
    key = key_of(dialect, "ann@example.com")
    assert re.fullmatch("[0-9a-f]{32}", key)  # OpenAI takes 64 characters
    assert key == key_of(dialect, "ann@example.com")
    others = [key_of(dialect, "bob@example.com"), key_of(dialect, "ann@example.com", TOOLS[:1]), key_of(dialect, "")]
    assert key not in others
    assert key_of(dialect, "ann@example.com", prefix_cache=False) is None
    assert key_of(dialect, "\ud800")


def test_without_a_session_only_openai_gets_a_key():
    assert [dialect for dialect in STICKY if key_of(dialect, "")] == ["openai"]


@pytest.mark.parametrize("dialect", sorted(set(DIALECTS) - set(STICKY)))
def test_services_that_know_no_key_get_none(dialect):
    template = RequestTemplate("m", DIALECTS[dialect], TOOLS)
    assert template.body(MESSAGES, session="s") == template.body(MESSAGES)


@given(st.text(), st.text())
def test_any_names_and_words_are_json(model, content):
    message = json.dumps({"role": "user", "content": content}).encode()
    model = model.encode("utf-8", "ignore").decode()
    request = json.loads(RequestTemplate(model, DIALECTS["generic"]).body(bytearray(message)))
    assert (request["model"], request["messages"][0]["content"]) == (model, content)
