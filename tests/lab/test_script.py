import pytest

from hotloop.errors import ConfigError, InvalidRequest, ModelError
from hotloop.lab.script import (
    Reply,
    ScriptExhausted,
    as_reply,
    call,
    decode_request,
    in_turn,
    load_script,
    per_conversation,
    raw,
    say,
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


YAML = """
- text: Let me look.
  calls:
    - name: find
      arguments: {order_id: "20250101"}
- Your order has shipped.
- calls: [{name: ping}]
"""


def test_a_yaml_script(tmp_path):
    path = tmp_path / "script.yaml"
    path.write_text(YAML)
    assert load_script(path) == [
        say("Let me look.", call("find", order_id="20250101")),
        say("Your order has shipped."),
        say("", call("ping")),
    ]


def test_a_json_script(tmp_path):
    path = tmp_path / "script.json"
    path.write_text('["one", {"text": "two", "usage": {"prompt_tokens": 3}}]')
    assert load_script(path) == [Reply("one"), Reply("two", usage=b'{"prompt_tokens":3}')]


@pytest.mark.parametrize("content", ["{", "[]", "{}", "- 3", "- {txt: hello}", "- {calls: [{arguments: {}}]}"])
def test_a_script_that_says_something_else_is_refused(tmp_path, content):
    path = tmp_path / "script.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"script\.yaml"):
        load_script(path)


def test_a_script_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        load_script(tmp_path / "none.yaml")
