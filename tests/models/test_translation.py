"""A conversation in the words of another service."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.context.conversation import Conversation
from hotloop.models.dialects import DIALECTS
from hotloop.models.translation import translated

SECRET = {"extra_content": {"google": {"thought_signature": "s"}}}


def conversation(text: str = "", content: str | None = None) -> Conversation:
    found = Conversation.of("Be brief.")
    found.user("go, 去")
    calls = [("call00001", "f", '{"a": 1}', SECRET), ("call00002", "g", "{}", {})]
    found.calls(calls, text=text, empty_content=content, reasoning="hm")
    found.result("call00001", '{"b": "\\u00e9é"}')
    found.result("call00002", "")
    found.answer("Done.")
    return found


def messages(data: bytes | bytearray) -> list[dict]:
    return msgspec.json.decode(b"[" + data + b"]")


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("content", [None, ""])
def test_what_only_its_service_understands_is_left_out(name: str, content: str | None) -> None:
    dialect, before = DIALECTS[name], conversation(content=content)
    found = messages(translated(before.messages, dialect))
    kept = messages(before.messages)
    assert found[2] == {
        "role": "assistant",
        "content": dialect.empty_content,
        "tool_calls": [
            {"id": "call00001", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
            {"id": "call00002", "type": "function", "function": {"name": "g", "arguments": "{}"}},
        ],
    }
    assert found[:2] + found[3:] == kept[:2] + kept[3:]


def test_text_beside_calls_stays() -> None:
    found = messages(translated(conversation(text="Looking.").messages, DIALECTS["ollama"]))
    assert found[2]["content"] == "Looking."


def test_messages_without_calls_stay_as_they_are_to_the_byte() -> None:
    plain = Conversation.of("Be brief.")
    plain.user("go, 去 \n\t\"'\\ \x7f é 😀")
    plain.answer("")
    assert translated(plain.messages, DIALECTS["ollama"]) == bytes(plain.messages)


def test_the_conversation_itself_is_not_changed() -> None:
    before = conversation()
    copy = bytes(before.messages)
    translated(before.messages, DIALECTS["ollama"])
    assert bytes(before.messages) == copy


@given(st.sampled_from(list(DIALECTS)), st.text(), st.dictionaries(st.text(max_size=5), st.integers()), st.text())
def test_what_is_in_its_words_already_stays(name: str, text: str, extra: dict, reasoning: str) -> None:
    found = Conversation()
    found.user("go")
    found.calls([("call00001", "f", "{}", extra)], text=text, reasoning=reasoning)
    once = translated(found.messages, DIALECTS[name])
    assert translated(once, DIALECTS[name]) == once
    [call] = messages(once)[1]["tool_calls"]
    assert set(call) == {"id", "type", "function"}
