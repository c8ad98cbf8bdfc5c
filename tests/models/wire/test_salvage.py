"""Calls in words: the four forms that services hand back, and what is not taken for a call."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.models.wire.salvage import salvage

TOOLS = frozenset({"get_weather", "ping", "a.b-c"})
PARIS = '{"city": "Paris"}'


def calls(text):
    reply = salvage(text, TOOLS)
    return None if reply is None else [(call.name, json.loads(call.arguments)) for call in reply.calls]


@pytest.mark.parametrize(
    "text",
    [
        f"get_weather{PARIS}</function>",
        f"get_weather {PARIS} </function>",
        f"<function=get_weather={PARIS}</function>",
        f"<function=get_weather>{PARIS}</function>",
        f"<function=get_weather{PARIS}</function>",
        f"<function(get_weather){PARIS}</function>",
        f"<function=get_weather={PARIS}</function>\n",
        f"I look it up. <function=get_weather={PARIS}</function> Wait.",
        f'```json\n[{{"name": "get_weather", "arguments": {PARIS}}}]\n```',
        f'```\n{{"name": "get_weather", "parameters": {PARIS}}}\n```',
        f'[{{"type": "function", "function": {{"name": "get_weather", "arguments": {json.dumps(PARIS)}}}}}]',
        f'{{"name": "get_weather", "arguments": {PARIS}}}',
        f'<tool_call>\n{{"name": "get_weather", "arguments": {PARIS}}}\n</tool_call>',
        f'```json [{{"name": "get_weather", "arguments": {PARIS}}}]',
    ],
)
def test_one_call(text):
    reply = salvage(text, TOOLS)
    assert calls(text) == [("get_weather", {"city": "Paris"})]
    assert (reply.salvaged, reply.text, reply.finish_reason) == (True, "", "tool_calls")
    assert reply.calls[0].whole


@pytest.mark.parametrize(
    "text",
    [
        f"<function=get_weather={PARIS}</function><function=ping={{}}</function>",
        f"<function=get_weather>{PARIS}</function>\n<function=ping>{{}}</function>\n",
        f"get_weather{PARIS}</function>ping{{}}</function>",
        f'```json\n[{{"name": "get_weather", "arguments": {PARIS}}}, {{"name": "ping"}}]\n```',
    ],
)
def test_two_calls(text):
    assert calls(text) == [("get_weather", {"city": "Paris"}), ("ping", {})]


def test_arguments_are_taken_as_they_stand():
    text = '{"q": "a } b {", "n": [1.10, {"x": "\\"}"}]}'
    assert salvage(f"<function=a.b-c={text}</function>", TOOLS).calls[0].arguments == text


@pytest.mark.parametrize("text", ["The weather is fine.", "  Line one.\nLine two.\n", "我不知道。", "1 + 1 = 2"])
def test_prose_is_the_answer(text):
    reply = salvage(text, TOOLS)
    assert (reply.text, reply.calls, reply.finish_reason, reply.salvaged) == (text.strip(), [], "stop", True)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param(" \n", id="blank"),
        pytest.param('<function=get_weather={"city": "Paris"</function>', id="no closing brace"),
        pytest.param('<function=get_weather={"city": "Paris",}</function>', id="a comma too many"),
        pytest.param('<function=get_weather={"city": "Paris"}', id="no closing tag"),
        pytest.param("<function=get_weather", id="cut"),
        pytest.param("<function=get_weather=5</function>", id="no object"),
        pytest.param('<function=get_wether={"city": "Paris"}</function>', id="an unknown name"),
        pytest.param('{"city": "Paris"}</function>', id="no name"),
        pytest.param(
            f'<function=get_weather={PARIS}</function><function=rm={{"a": 1}}</function>', id="one of two is unknown"
        ),
        pytest.param(
            f'<function=get_weather={PARIS}</function><function=ping={{"a": </function>', id="one of two is broken"
        ),
        pytest.param('<function=get_weather={"city": "</function>"}</function>', id="the tag inside a string"),
        pytest.param('<function=get_weather={"filter": ping{"a": 1}</function>', id="another name inside"),
        pytest.param('```json\n[{"name": "get_weather", "arguments": "Paris"}]\n```', id="text as arguments"),
        pytest.param('```json\n[{"name": "get_weather", "arguments": [1]}]\n```', id="a list as arguments"),
        pytest.param('[{"name": ["get_weather"], "arguments": {}}]', id="a name of another type"),
        pytest.param('[{"name": "get_weather", "arguments": {}}, 5]', id="something else in the list"),
        pytest.param('[{"name": "nobody", "arguments": {}}]', id="an unknown name in a list"),
        pytest.param('{"name": "get_weather", "arguments": {"a": ', id="cut in a list"),
        pytest.param('{"city": "Paris"}', id="only arguments"),
        pytest.param('Sure: {"name": "get_weather"} is what I call', id="JSON within prose"),
        pytest.param('{"a":' * 100_000, id="nested without end"),
    ],
)
def test_neither_calls_nor_prose(text):
    assert salvage(text, TOOLS) is None


@given(st.text(alphabet=st.sampled_from('{}[]<>=/()"`: \nfunctioagetweher_jslp'), max_size=60))
def test_any_text_is_calls_of_known_tools_or_words_or_nothing(text):
    reply = salvage(text, TOOLS)
    if reply is not None:
        assert bool(reply.calls) != bool(reply.text)
        assert all(call.name in TOOLS and isinstance(json.loads(call.arguments), dict) for call in reply.calls)


@pytest.mark.parametrize(
    "text",
    [
        "a" * 60_000,
        "a{" * 30_000,
        "```" + " " * 60_000 + "x",
        "x</function>" + "a{" * 30_000,
        "{}</function>" * 5_000,
        "<function=" * 6_000,
    ],
)
def test_long_texts_take_linear_time(text):
    """Words of a model, up to 64 KB: a pattern that tries every start and end would hold the event loop for minutes."""
    started = time.perf_counter()
    salvage(text, TOOLS)
    assert time.perf_counter() - started < 2.0  # seconds; linear work takes milliseconds, quadratic took minutes
