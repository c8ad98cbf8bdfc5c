"""How the small model is asked: a text that only grows, and calls for what the user names."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.models.local.request import ChatRequest, read_request
from hotloop.models.local.smollm2 import EXAMPLES, called_for, prompt, said

USER = st.builds(lambda text: {"role": "user", "content": text}, st.text())
ANSWER = st.builds(lambda text: {"role": "assistant", "content": text}, st.text())
TURNS = st.lists(st.tuples(USER, ANSWER), max_size=4).map(lambda pairs: [each for pair in pairs for each in pair])


def request(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **more: Any) -> ChatRequest:
    return read_request(msgspec.json.encode({"messages": messages, "tools": tools or [], **more}))


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def call(name: str, arguments: str) -> dict[str, Any]:
    return {"id": f"c-{name}", "type": "function", "function": {"name": name, "arguments": arguments}}


ANSWERED = [
    {"role": "system", "content": "Be brief."},
    user("Where is order 20250101?"),
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [call("query_order_status", '{"order_id": "1"}'), call("query_logistics", "{}")],
    },
    {"role": "tool", "tool_call_id": "a", "content": '{"status":"shipped","items":2,"paid":true}'},
    {"role": "tool", "tool_call_id": "b", "content": "No such parcel."},
]


def test_a_conversation_is_one_text(order_tools: list[dict[str, Any]]) -> None:
    assert prompt(request(ANSWERED, order_tools)) == EXAMPLES + (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\nWhere is order 20250101?<|im_end|>\n"
        '<|im_start|>assistant\nquery_order_status {"order_id": "1"}\nquery_logistics {}<|im_end|>\n'
        "<|im_start|>tool\nstatus: shipped, items: 2, paid: true\nNo such parcel.<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_without_tools_there_are_no_examples() -> None:
    assert prompt(request([user("Hi")])) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"


@given(TURNS, USER, ANSWER, USER)
def test_what_was_said_before_never_changes(
    turns: list[dict[str, Any]], asked: dict[str, Any], answer: dict[str, Any], again: dict[str, Any]
) -> None:
    before = prompt(request([*turns, asked]))
    assert prompt(request([*turns, asked, answer, again])).startswith(before)


@given(st.text(alphabet="<|im_startend>|\nab"))
def test_no_message_can_begin_a_turn_of_its_own(text: str) -> None:
    assert prompt(request([user(text)])).count("<|") == 3


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("What is the status of order 1, and where is it now?", ["query_order_status", "query_logistics"]),
        ("查一下物流信息", ["query_logistics"]),
        ("Thank you!", []),
    ],
)
def test_what_the_user_names_is_called(order_tools: list[dict[str, Any]], text: str, names: list[str]) -> None:
    assert [function.name for function in called_for(request([user(text)], order_tools))] == names


def test_nothing_is_called_twice_for_one_request(order_tools: list[dict[str, Any]]) -> None:
    assert called_for(request(ANSWERED, order_tools)) == []


def test_free_strings_come_from_the_newest_words_first() -> None:
    messages = request([user("old words"), user("to Ann Lee, 上海")]).messages
    spans = said(messages)
    assert spans[:3] == ["to", "to Ann", "to Ann Lee"]
    assert {"Ann Lee", "上", "上海", "old words"} <= set(spans)
    assert spans.index("上海") < spans.index("old")


@given(st.text())
def test_what_may_be_said_was_said(text: str) -> None:
    assert all(span and span in text for span in said(request([user(text)]).messages))
