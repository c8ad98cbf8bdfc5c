import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.lab.render import Rendered, Report, render, tokenize
from hotloop.lab.script import call, say

NAMES = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
ARGUMENTS = st.dictionaries(NAMES, st.one_of(st.text(), st.integers(-(2**53), 2**53), st.booleans(), st.none()))
CALLS = st.lists(st.builds(lambda name, arguments: call(name, **arguments), NAMES, ARGUMENTS), max_size=3)


def counts(prompt_tokens: int) -> Report:
    return Report({"prompt_tokens": prompt_tokens, "completion_tokens": 5, "total_tokens": prompt_tokens + 5})


def stream(reply: Rendered, prompt_tokens: int, include_usage: bool) -> list[bytes]:
    """The whole stream, one piece a token, the tail with the last."""
    *others, last = reply.tokens
    return [*others, last + reply.tail(counts(prompt_tokens), include_usage)]


def frames(stream: bytes) -> list[dict]:
    """The decoded frames of a complete stream."""
    *events, last = stream.decode().removesuffix("\n\n").split("\n\n")
    assert last == "data: [DONE]"
    return [msgspec.json.decode(event.removeprefix("data: ")) for event in events]


def items(piece: bytes) -> int:
    """How many texts and items of calls there are in a token's frames."""
    deltas = [frame["choices"][0]["delta"] for frame in frames(piece + b"data: [DONE]\n\n")] if piece else []
    return sum(len(delta.get("tool_calls", ())) + bool(delta.get("content")) for delta in deltas)


def spoken(decoded: list[dict]) -> str:
    return "".join(frame["choices"][0]["delta"].get("content") or "" for frame in decoded if frame["choices"])


def called(decoded: list[dict]) -> list[tuple[str, str]]:
    names, arguments = {}, {}
    for fragment in (part for f in decoded if f["choices"] for part in f["choices"][0]["delta"].get("tool_calls", ())):
        names.setdefault(fragment["index"], fragment["function"].get("name"))
        arguments[fragment["index"]] = arguments.get(fragment["index"], "") + fragment["function"]["arguments"]
    return [(names[slot], arguments[slot]) for slot in names]


@given(st.text())
def test_tokens_are_the_text(text):
    assert "".join(tokenize(text)) == text


def test_tokens_are_words_and_chinese_characters():
    assert tokenize("Your order is  here.\n") == ["Your", " order", " is", "  here.", "\n"]
    assert tokenize("订单 20250101 到了") == ["订", "单", " 20250101", " 到", "了"]


@given(st.text(), CALLS)
def test_a_stream_says_the_reply(text, calls):
    reply = render(say(text, *calls), 0)
    decoded = frames(b"".join(stream(reply, 10, True)))
    assert spoken(decoded) == text
    assert called(decoded) == [(each.name, each.arguments) for each in calls]
    assert decoded[0]["choices"][0]["delta"]["role"] == "assistant"
    assert decoded[-2]["choices"][0]["finish_reason"] == ("tool_calls" if calls else "stop")
    assert decoded[-1]["usage"] == counts(10).usage


@given(st.text(), CALLS)
def test_a_body_says_the_same(text, calls):
    body = msgspec.json.decode(render(say(text, *calls), 0).body(counts(10)))
    message = body["choices"][0]["message"]
    assert (message["content"] or "") == text
    written = [(each["function"]["name"], each["function"]["arguments"]) for each in message.get("tool_calls", ())]
    assert written == [(each.name, each.arguments) for each in calls]
    assert body["usage"] == counts(10).usage


def test_one_piece_a_token_and_the_tail_with_the_last():
    pieces = stream(render(say("one two three"), 0), 10, True)
    assert len(pieces) == 3
    assert pieces[0].count(b"data: ") == 2  # the role, then the first token
    assert pieces[1].count(b"data: ") == 1
    assert pieces[2].endswith(b"data: [DONE]\n\n")


def test_a_call_is_a_head_and_argument_pieces():
    decoded = frames(b"".join(stream(render(say("", call("find", order_id="20250101")), 3), 1, False)))
    fragments = [frame["choices"][0]["delta"]["tool_calls"][0] for frame in decoded[1:-1]]
    assert fragments[0]["id"] == "call_3_0"
    assert fragments[0]["function"] == {"name": "find", "arguments": ""}
    assert len(fragments) > 3
    assert all("id" not in fragment and "name" not in fragment["function"] for fragment in fragments[1:])


def test_usage_comes_only_when_asked_for():
    reply = render(say("hello"), 0)
    assert not any("usage" in frame for frame in frames(b"".join(stream(reply, 10, False))))
    assert frames(b"".join(stream(reply, 10, True)))[-1]["choices"] == []


def test_given_usage_is_reported_as_it_stands():
    usage = {"prompt_tokens": 1240, "completion_tokens": 96, "prompt_tokens_details": {"cached_tokens": 1024}}
    reply = render(say("hello", usage=usage), 0)
    assert frames(b"".join(stream(reply, 10, True)))[-1]["usage"] == usage
    assert msgspec.json.decode(reply.body(counts(10)))["usage"] == usage


def test_an_empty_reply_still_is_a_reply():
    decoded = frames(b"".join(stream(render(say(""), 0), 1, False)))
    assert spoken(decoded) == ""
    assert decoded[-1]["choices"][0]["finish_reason"] == "stop"


@given(st.text(), CALLS, st.integers(1, 12))
def test_a_capped_reply_is_the_first_tokens_of_the_whole(text, calls, cap):
    whole, capped = render(say(text, *calls), 0), render(say(text, *calls), 0, cap)
    if whole.completion_tokens <= cap:
        assert capped == whole
        return
    assert capped.tokens == whole.tokens[:cap]
    assert capped.completion_tokens == cap
    decoded = frames(b"".join(stream(capped, 10, True)))
    assert decoded[-2]["choices"][0]["finish_reason"] == "length"
    choice = msgspec.json.decode(capped.body(counts(10)))["choices"][0]
    assert choice["finish_reason"] == "length"
    assert (choice["message"]["content"] or "") == spoken(decoded)
    written = [each["function"] for each in choice["message"].get("tool_calls", ())]
    assert [(each["name"], each["arguments"]) for each in written] == called(decoded)


@pytest.mark.parametrize("turn", [0, 5])
def test_ids_differ_from_turn_to_turn(turn):
    ids = [each["id"] for each in render(say("", call("a"), call("b")), turn).message["tool_calls"]]
    assert ids == [f"call_{turn}_0", f"call_{turn}_1"]


@pytest.mark.parametrize(
    ("granularity", "sizes"),
    [("token", [1] * 10), ("call", [1, *[0] * 5, 1, 0, 0, 1]), ("burst", [1, *[0] * 8, 2])],
)
def test_calls_come_in_the_granularity_of_the_service(granularity, sizes):
    calls = (call("find", id="20250101"), call("track", a=1))  # after one token of text, of 6 and 3 tokens
    reply = render(say("Look", *calls), 0, None, granularity)
    assert [items(piece) for piece in reply.tokens] == sizes
    decoded = frames(b"".join(stream(reply, 10, True)))
    assert (spoken(decoded), called(decoded)) == ("Look", [(each.name, each.arguments) for each in calls])


def test_a_report_adds_fields_where_its_service_has_them():
    reply = render(say("hello"), 0)
    report = Report({"prompt_tokens": 3}, finish={"x_groq": 1}, last={"timings": 2})
    *_, finish, last = frames(b"".join([*reply.tokens, reply.tail(report, True)]))
    assert (finish["x_groq"], "timings" in finish) == (1, False)
    assert (last["usage"], last["timings"]) == ({"prompt_tokens": 3}, 2)
    *_, finish = frames(b"".join([*reply.tokens, reply.tail(report, False)]))
    assert (finish["x_groq"], finish["timings"]) == (1, 2)
    body = msgspec.json.decode(reply.body(report))
    assert (body["usage"], body["x_groq"], body["timings"]) == ({"prompt_tokens": 3}, 1, 2)
