import pytest

from hotloop.errors import ConfigError, InvalidRequest, ModelError
from hotloop.lab.script import (
    ScriptExhausted,
    as_reply,
    call,
    decode_request,
    in_turn,
    per_conversation,
    raw,
    say,
    token_cap,
)


def conversation(turns: int) -> dict:
    history = [message for _ in range(turns) for message in ({"role": "assistant"}, {"role": "tool"})]
    return {"messages": [{"role": "user", "content": "hello"}, *history]}


def test_texts_calls_and_lists_of_calls_are_replies():
    find = call("find", order_id="1")
    assert as_reply("hello") == say("hello")
    assert as_reply(find) == as_reply([find]) == say("", find)
    assert find.arguments == '{"order_id":"1"}'


def test_arguments_may_be_called_name():
    assert call("find", name="x").arguments == '{"name":"x"}'


@pytest.mark.parametrize("value", [None, 3, [], ["text"], {"text": "x"}])
def test_anything_else_is_refused(value):
    with pytest.raises(ConfigError, match="is no reply"):
        as_reply(value)


def test_in_turn_ends_with_a_clear_error():
    answer = in_turn(["one", "two"])
    assert [answer(conversation(0)), answer(conversation(0))] == [say("one"), say("two")]
    with pytest.raises(ScriptExhausted, match="Request 3 came, but the script has 2 replies") as caught:
        answer(conversation(0))
    assert isinstance(caught.value, ModelError)
    assert not caught.value.retryable


def test_conversations_go_their_own_ways_and_around():
    answer = per_conversation([call("find"), "found"])
    assert answer(conversation(0)) == answer(conversation(0)) == say("", call("find"))
    assert answer(conversation(1)) == say("found")
    assert answer(conversation(2)) == say("", call("find"))


def test_a_fault_is_met_once():
    busy, cut = raw(b"{}", status=503), raw(b"data: {", cut=True)
    answer = per_conversation([busy, cut, "one", "two"])
    assert [answer(conversation(0)) for _ in range(4)] == [busy, cut, say("one"), say("one")]
    assert answer(conversation(1)) == say("two")


def test_a_script_of_faults_alone_stays_at_the_last():
    down = raw(b"{}", status=503)
    answer = per_conversation([down])
    assert [answer(conversation(0)) for _ in range(3)] == [down] * 3


def test_an_empty_script_is_refused():
    with pytest.raises(ConfigError, match="no replies"):
        per_conversation([])


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"messages": []}', b'{"messages": ["hello"]}'])
def test_what_is_no_request_is_refused(body):
    with pytest.raises(InvalidRequest):
        decode_request(body)


@pytest.mark.parametrize(
    ("fields", "cap"),
    [
        ({}, None),
        ({"max_tokens": None}, None),
        ({"max_tokens": 7}, 7),
        ({"max_completion_tokens": 7}, 7),
        ({"max_completion_tokens": 7, "max_tokens": 9}, 7),
    ],
)
def test_the_cap_of_a_reply(fields, cap):
    assert token_cap(conversation(0) | fields) == cap


@pytest.mark.parametrize("cap", [0, -1, 1.5, "7", True, [7]])
def test_what_is_no_cap_is_refused(cap):
    with pytest.raises(InvalidRequest, match=r"max_tokens is .*; it has to be a whole number from 1 on"):
        token_cap(conversation(0) | {"max_tokens": cap})
