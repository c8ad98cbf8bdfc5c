"""What the model sees: append-only, valid JSON, ids of our own, and branches that leave no trace."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.context.conversation import Conversation
from hotloop.errors import ConfigError

texts = st.text()  # any, surrogates apart: those have no UTF-8


def messages(conversation: Conversation) -> list[dict]:
    return json.loads(b"[" + bytes(conversation.messages) + b"]")


def call(conversation: Conversation, calls: list[tuple], **options) -> list[str]:
    """The model makes these calls (name, arguments, extra); their ids."""
    ids = [conversation.new_id() for _ in calls]
    conversation.calls([(call_id, *each) for call_id, each in zip(ids, calls, strict=True)], **options)
    return ids


def test_every_kind_of_message():
    conversation = Conversation.of("Be brief.")
    conversation.user("Where is 7?")
    ids = call(conversation, [("look_up", '{"key":"7"}', {}), ("wait", "{}", {"extra_content": {"a": 1}})], text="Hm.")
    for call_id in ids:
        conversation.result(call_id, "found")
    conversation.answer("There.")
    assert messages(conversation) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Where is 7?"},
        {
            "role": "assistant",
            "content": "Hm.",
            "tool_calls": [
                {"id": "call00001", "type": "function", "function": {"name": "look_up", "arguments": '{"key":"7"}'}},
                {
                    "id": "call00002",
                    "type": "function",
                    "function": {"name": "wait", "arguments": "{}"},
                    "extra_content": {"a": 1},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "call00001", "content": "found"},
        {"role": "tool", "tool_call_id": "call00002", "content": "found"},
        {"role": "assistant", "content": "There."},
    ]


def test_without_instructions_there_is_no_system_message():
    assert messages(Conversation()) == []
    assert messages(Conversation.of("")) == []


def test_a_turn_of_only_calls_has_the_content_that_the_service_wants():
    for text in ("", " ", "\n\t"):
        conversation = Conversation()
        call(conversation, [("a", "{}", {})], text=text)
        call(conversation, [("a", "{}", {})], text=text, empty_content="")
        assert [message["content"] for message in messages(conversation)] == [None, ""]


def test_reasoning_goes_back_only_where_it_is_given():
    conversation = Conversation()
    call(conversation, [("a", "{}", {})])
    call(conversation, [("a", "{}", {})], reasoning="because")
    first, second = messages(conversation)
    assert "reasoning_content" not in first
    assert second["reasoning_content"] == "because"


steps = st.one_of(
    st.tuples(st.just("user"), texts),
    st.tuples(st.just("answer"), texts),
    st.tuples(st.just("calls"), st.lists(st.tuples(texts, texts), min_size=1, max_size=4)),
)


def write(conversation: Conversation, kind: str, what) -> list[str]:
    if kind == "user":
        conversation.user(what)
    elif kind == "answer":
        conversation.answer(what)
    else:
        ids = call(conversation, [(name, arguments, {}) for name, arguments in what])
        for call_id, (name, _) in zip(ids, what, strict=True):
            conversation.result(call_id, name)
        return ids
    return []


@given(texts, st.lists(steps, max_size=12), st.lists(steps, max_size=4))
def test_it_only_grows_and_a_branch_changes_nothing(instructions, written, dropped):
    conversation, ids = Conversation.of(instructions), []
    for kind, what in written:
        before = bytes(conversation.messages)
        ids += write(conversation, kind, what)
        assert bytes(conversation.messages).startswith(before)
    before = bytes(conversation.messages)
    branch = conversation.branch()
    branch_ids = [each for kind, what in dropped for each in write(branch, kind, what)]
    assert bytes(conversation.messages) == before
    assert bytes(branch.messages).startswith(before)
    assert len(set(ids + branch_ids)) == len(ids + branch_ids)
    assert all(len(each) == 9 and each.isascii() and each.isalnum() for each in ids)
    shown = [message.get("content") for message in messages(branch) if message["role"] in ("user", "system")]
    said = [what for kind, what in [*written, *dropped] if kind == "user"]
    assert shown == ([instructions] if instructions else []) + said


def test_ids_stay_unique_beyond_what_nine_places_can_count():
    conversation = Conversation()
    conversation.ids_given = 99_998
    assert len(set(call(conversation, [("a", "{}", {})] * 4))) == 4


def test_text_that_is_no_unicode_is_refused_and_leaves_the_conversation_whole():
    """Such comes from a command line or file name with bytes of another encoding."""
    with pytest.raises(ConfigError, match="udce9"):
        Conversation.of("caf\udce9")
    conversation = Conversation.of("Be brief.")
    conversation.user("coffee")
    before = bytes(conversation.messages)
    with pytest.raises(ConfigError, match=r"has '\\udce9', which is no character"):
        conversation.user("caf\udce9")
    assert bytes(conversation.messages) == before
