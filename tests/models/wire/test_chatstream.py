"""One reply, as services really send it: text, reasoning, usage, ends, errors, and bodies that are no stream."""

from __future__ import annotations

import json

import pytest
from wire_frames import DONE, call_events, called, calls, chunk, data, end, error, item, merged, parse, reply, text

from hotloop.errors import (
    AuthenticationError,
    ContentFiltered,
    ContextOverflow,
    InvalidRequest,
    MalformedReply,
    Overloaded,
    RateLimited,
    ServiceError,
    ToolUseFailed,
    TransportError,
)
from hotloop.events import ReasoningDelta, ReplyFinished, TextDelta
from hotloop.models.wire.chatstream import ChatStream
from hotloop.trace.ledger import Usage

PLAIN = [chunk({"role": "assistant", "content": ""}), text("Good "), text("day."), end("stop"), DONE]
EMOJI = "订单 ✅ 👩‍👩‍👧 \U0001f9d1\U0001f3fd"


# Text


def test_text():
    events, result = parse(*PLAIN)
    assert events == [TextDelta("Good "), TextDelta("day."), ReplyFinished("stop", 0)]
    assert (result.text, result.finish_reason, result.model, result.usage) == ("Good day.", "stop", "m", Usage())


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda body: body.replace(b"\n", b"\r\n"), id="crlf"),
        pytest.param(lambda body: body.replace(b"\n", b"\r"), id="cr"),
        pytest.param(lambda body: body.replace(b"data: ", b"data:"), id="no space"),
        pytest.param(lambda body: b"\xef\xbb\xbf" + body, id="byte order mark"),
        pytest.param(lambda body: b" \n\n" + body, id="blank lines first"),
        pytest.param(lambda body: body.rstrip(b"\n"), id="no blank line at the end"),
        pytest.param(lambda body: body.removesuffix(DONE), id="no done"),
        pytest.param(lambda body: body.removesuffix(DONE).rstrip(b"\n"), id="no done, no blank line"),
        pytest.param(lambda body: body.replace(DONE, b"data: [DONE]"), id="done without blank line"),
        pytest.param(lambda body: body + DONE, id="done twice"),
        pytest.param(lambda body: b": ping\n\n" + body.replace(b"\n\n", b"\n\n: ping\n\n"), id="comments"),
        pytest.param(lambda body: body.replace(b"data: {", b"event: message\nid: 1\nretry: 10\ndata: {"), id="fields"),
        pytest.param(lambda body: body.replace(b', "choices"', b'\ndata: , "choices"'), id="several data lines"),
        pytest.param(lambda body: body.replace(b"\n\n", b"\n", 2), id="no blank line between"),
        pytest.param(
            lambda body: b"data: null\n\n" + body.replace(b"\n\n", b"\n\ndata: null\n\n", 2), id="null frames"
        ),
        pytest.param(lambda body: b"data: \n\n" + body.replace(b"\n\n", b"\n\ndata:\n\n", 2), id="empty frames"),
        pytest.param(lambda body: b'data: {"type": "ping"}\n\n' + body, id="pings"),
        pytest.param(lambda body: b'data: 5\n\ndata: []\n\ndata: "x"\n\n' + body, id="other JSON"),
        pytest.param(lambda body: body.replace(b'"finish_reason": null', b'"finish_reason": ""'), id="empty reasons"),
        pytest.param(
            lambda body: body.replace(b'"finish_reason": null', b'"finish_reason": "null"'), id="null as text"
        ),
        pytest.param(lambda body: body.replace(b'"index": 0, ', b""), id="no index"),
        pytest.param(lambda body: body.replace(b'"created": 1', b'"created": "x", "choices2": [{}]'), id="unknown"),
        pytest.param(
            lambda body: body.replace(b'"model": "m"', b'"model": "m", "usage": null, "error": null'), id="nulls"
        ),
        pytest.param(lambda body: body.replace(b'"model": "m"', b'"model": "m", "error": ""'), id="empty errors"),
        pytest.param(
            lambda body: body.replace(b'"model": "m"', b'"model": "m", "error": {}, "usage": {}'), id="empty objects"
        ),
        pytest.param(
            lambda body: body.replace(b'"model": "m"', b'"model": "m", "usage": {"x": 1}, "error": ""'),
            id="empty errors next to usage",
        ),
        pytest.param(
            lambda body: body.replace(b'"content"', b'"refusal": null, "tool_calls": null, "content"'), id="null fields"
        ),
        pytest.param(
            lambda body: body.replace(b'"content"', b'"tool_calls": [], "content"'), id="no calls in every delta"
        ),
        pytest.param(
            lambda body: body.replace(b'"model": "m"', b'"model": "m", "usage": 7, "timings": []'), id="odd types"
        ),
    ],
)
def test_the_same_text_in_other_clothes(change):
    body = change(b"".join(PLAIN))
    for reads in [body], [body[at : at + 1] for at in range(len(body))]:
        events, result = parse(*reads)
        assert (result.text, result.finish_reason, result.model) == ("Good day.", "stop", "m")
        assert events == [TextDelta("Good "), TextDelta("day."), ReplyFinished("stop", 0)]


def test_characters_split_anywhere():
    body = text(EMOJI) + text(EMOJI) + end("stop")
    assert EMOJI.encode() in body
    for at in range(len(body)):
        assert reply(body[:at], body[at:]).text == EMOJI * 2


def test_escaped_characters():
    body = b"".join(PLAIN).replace(b"Good ", json.dumps(EMOJI)[1:-1].encode())
    assert reply(body).text == EMOJI + "day."


def test_what_is_no_token_is_not_counted():
    """Otherwise the time to the first token would be that of a frame which has none."""
    stream = ChatStream()
    no_tokens = [
        b": ping\n\n",
        data({"id": "", "model": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]}),
        b"data: null\n\n",
        chunk({"role": "assistant", "content": None}),
        chunk({"role": "assistant", "content": ""}),
        data({"choices": [], "usage": {"prompt_tokens": 3}}),
    ]
    for read in no_tokens:
        assert stream.feed(read) == []
    assert (stream.tokens, stream.started) == (0, False)
    stream.feed(text("a") + text("b"))
    assert (stream.tokens, stream.started) == (2, True)


@pytest.mark.parametrize(
    "piece",
    [
        text("a"),
        text([{"type": "text", "text": "a"}]),
        chunk({"reasoning": "a"}),
        chunk({"refusal": "a"}),
        text([{"type": "thinking", "thinking": "a"}]),
        calls(item("{}", "f")),
        chunk({"function_call": {"name": "f"}}),
        data({"choices": [{"message": {"content": "a"}}]}),
    ],
)
def test_every_other_piece_is_one(piece):
    stream = ChatStream()
    stream.feed(piece)
    assert stream.tokens == 1


def test_all_pieces_of_a_large_read_are_counted():
    one_by_one, at_once = ChatStream(), ChatStream()
    for read in like(100):
        one_by_one.feed(read)
    at_once.feed(b"".join(like(100)))
    assert one_by_one.tokens == at_once.tokens == 100


def test_the_tokens_that_the_service_counted():
    stream = ChatStream()
    assert stream.written is None
    stream.feed(text("a", usage={"completion_tokens": 7}))
    assert stream.written == 7


def test_the_model_is_named_by_a_chunk_with_choices():
    azure = data({"id": "", "model": "", "choices": [], "prompt_filter_results": []})
    assert reply(azure, *PLAIN).model == "m"
    assert reply(data({"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]})).model == ""
    assert reply(data({"model": 5, "choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]})).model == ""
    assert reply(PLAIN[1].replace(b'"m"', b'"\xff"'), end("stop")).text == "Good "


def test_nothing_after_done_is_part_of_the_reply():
    late = text("more") + data({"error": {"message": "late", "code": 500}})
    for reads in [[*PLAIN, late], [b"".join(PLAIN) + late], [b"".join(PLAIN), late]]:
        stream = ChatStream()
        events = [event for read in reads for event in stream.feed(read)] + stream.close()
        assert stream.done
        assert stream.reply().text == "Good day."
        assert events[-1] == ReplyFinished("stop", 0)


@pytest.mark.parametrize(
    ("content", "said", "thought"),
    [
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab", ""),
        ([{"type": "thinking", "thinking": "h"}, {"type": "thinking", "thinking": "m"}], "", "hm"),
        ([{"type": "thinking", "thinking": [{"type": "text", "text": "h"}, {"text": "m"}]}], "", "hm"),
        ([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}], "a", "hm"),
        ([{"type": "thinking", "thinking": [{"text": None}, {}, 5]}, {"text": None}, None, 5, "x", {}], "", ""),
        ([], "", ""),
    ],
)
def test_content_in_parts(content, said, thought):
    result = reply(text(content), end("stop"))
    assert (result.text, result.reasoning) == (said, thought)


def test_a_refusal_is_text():
    events, result = parse(chunk({"refusal": "I will not."}), end("stop"))
    assert events[0] == TextDelta("I will not.")
    assert result.text == "I will not."


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_not_the_answer(field):
    reads = [chunk({field: "hm"}), chunk({field: " ok", "content": None}), text("done"), end("stop")]
    events, result = parse(*reads)
    assert events == [ReasoningDelta("hm"), ReasoningDelta(" ok"), TextDelta("done"), ReplyFinished("stop", 0)]
    assert (result.text, result.reasoning) == ("done", "hm ok")


def test_everything_in_one_delta():
    """No field of a delta hides another."""
    everything = chunk(
        {"content": "I look.", "reasoning": "hm", "tool_calls": [item('{"a": 1}', "f", index=0)]}, "tool_calls"
    )
    for read in everything, everything.replace(b'"I look."', b'[{"type": "text", "text": "I look."}]'):
        result = reply(read)
        assert (result.text, result.reasoning) == ("I look.", "hm")
        assert [call.name for call in result.calls] == ["f"]
    result = reply(
        chunk({"content": "I look.", "reasoning": "hm", "function_call": {"name": "f", "arguments": "{}"}}, "stop")
    )
    assert (result.text, result.reasoning, [call.name for call in result.calls]) == ("I look.", "hm", ["f"])
    result = reply(chunk({"content": "", "tool_calls": [], "reasoning_content": "hm"}), end("stop"))
    assert result.reasoning == "hm"


@pytest.mark.parametrize("content", ["\n\n", "Let me look. ", [{"type": "text", "text": "Let me look. "}]])
def test_content_before_calls(content):
    assert called(text(content), calls(item('{"a": 1}', "f", index=0)), end()) == [("f", {"a": 1})]


# A message in place of a delta


def messages(*contents, finish="stop"):
    return [
        data({"choices": [{"index": 0, "message": {"role": "assistant", "content": each}}]}) for each in contents
    ] + [data({"choices": [{"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": finish}]})]


def test_one_message():
    whole = data(
        {"model": "m", "choices": [{"message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}]}
    )
    assert parse(whole, DONE)[0] == [TextDelta("Hi"), ReplyFinished("stop", 0)]
    with_calls = data(
        {
            "choices": [
                {
                    "message": {"content": None, "tool_calls": [item('{"a": 1}', "f", id="x")]},
                    "finish_reason": "tool_calls",
                }
            ]
        }
    )
    assert called(with_calls) == [("f", {"a": 1})]
    assert called(with_calls, with_calls) == [("f", {"a": 1})]


def test_messages_that_say_more_each_or_all_so_far():
    assert reply(*messages("Good ", "day, ", "sir.")).text == "Good day, sir."
    assert reply(*messages("Good ", "Good day, ", "Good day, sir.")).text == "Good day, sir."
    assert merged(parse(*messages("Good ", "Good day"))[0]) == [TextDelta("Good day"), ReplyFinished("stop", 0)]


def test_many_messages_in_one_read():
    """The straight way through large reads is not for them."""
    contents = ["".join(f"word{number} " for number in range(count)) for count in range(1, 60)]
    reads = messages(*contents)
    assert len(b"".join(reads)) > 4096
    assert parse(b"".join(reads))[1].text == parse(*reads)[1].text == contents[-1]


def test_a_message_after_the_deltas_says_nothing_new():
    final = data({"choices": [{"index": 0, "message": {"content": "Good day."}, "finish_reason": "stop"}]})
    assert reply(*PLAIN[:3], final, DONE).text == "Good day."


# Usage


def test_usage_in_any_chunk_null_and_repeated():
    first = {"prompt_tokens": 11, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 8}}
    null = {"prompt_tokens": None, "completion_tokens": None, "total_tokens": None}
    last = {"prompt_tokens": 11, "completion_tokens": 7, "completion_tokens_details": {"reasoning_tokens": 3}}
    result = reply(
        text("do", usage=first), text("ne", usage=last), end("stop", usage=None), data({"choices": [], "usage": null})
    )
    assert result.usage == Usage(11, 7, 8, 3)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({}, Usage()),
        ({"prompt_tokens": 5}, Usage(5)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, Usage(0, 0)),
        ({"prompt_tokens": "5", "completion_tokens": True}, Usage()),
        ({"prompt_tokens": 5, "prompt_tokens_details": None, "completion_tokens_details": 7}, Usage(5)),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": None}}, Usage(5)),
    ],
)
def test_what_is_not_counted_is_unknown(usage, expected):
    assert reply(text("a"), end("stop"), data({"choices": [], "usage": usage})).usage == expected
    assert reply(text("a"), end("stop"), data({"usage": usage})).usage == expected


def test_usage_and_times_of_groq():
    times = {"queue_time": 0.0125, "prompt_time": 0.002, "completion_time": 0.25, "total_time": 0.252}
    result = reply(
        text("a"), end("stop", x_groq={"id": "r", "usage": {"prompt_tokens": 9, "completion_tokens": 4} | times})
    )
    assert result.usage == Usage(9, 4)
    assert result.server_ms == pytest.approx({"queue_ms": 12.5, "prompt_ms": 2.0, "completion_ms": 250.0})


def test_times_of_llamacpp():
    timings = {"cache_n": 3, "prompt_n": 5, "prompt_ms": 31.5, "predicted_n": 8, "predicted_ms": 120.25}
    assert reply(text("a"), end("stop", timings=timings)).server_ms == {"prompt_ms": 31.5, "predicted_ms": 120.25}


@pytest.mark.parametrize(
    ("beside", "told"),
    [
        (
            {"metrics": {"queue_time_ms": 2, "time_to_first_token_ms": 31.5, "generation_time_ms": 90, "x": 3}},
            {"queue_time_ms": 2, "time_to_first_token_ms": 31.5, "generation_time_ms": 90},
        ),
        ({"nvext": {"timing": {"ttft_ms": 31.5, "itl_ms": 2}, "worker_id": 7}}, {"ttft_ms": 31.5}),
        ({"nvext": {"worker_id": 7}}, {}),
        ({"nvext": {"timing": "none"}, "metrics": [1]}, {}),
    ],
)
def test_times_of_vllm_and_dynamo(beside, told):
    assert reply(text("a"), end("stop", **beside)).server_ms == told


def test_times_that_are_unknown_are_left_out():
    timings = {"prompt_ms": None, "predicted_ms": "fast"}
    groq = {"queue_time": None, "prompt_time": "x", "completion_time": None}
    assert reply(text("a"), end("stop", timings=timings, x_groq={"usage": groq}, usage=groq)).server_ms == {}


# How a reply ends


@pytest.mark.parametrize("finish", ["stop", "eos", "end_turn", "STOP", "tool_calls", "length"])
def test_text_is_an_answer_after_any_end(finish):
    result = reply(text("hi"), end(finish))
    assert (result.text, result.finish_reason) == ("hi", finish)


def test_a_filtered_reply_is_no_answer():
    failed = error(text("hi"), end("content_filter"))
    assert isinstance(failed, ContentFiltered)
    assert not failed.retryable


@pytest.mark.parametrize("finish", ["error", "abort"])
def test_a_reply_that_the_service_broke_off_is_no_answer(finish):
    failed = error(text("hi"), end(finish))
    assert isinstance(failed, Overloaded)
    assert finish in str(failed)


@pytest.mark.parametrize(
    "reads",
    [
        pytest.param([], id="nothing"),
        pytest.param([b" \r\n\n"], id="blank"),
        pytest.param(PLAIN[:3], id="no end"),
        pytest.param([*PLAIN[:3], DONE], id="only done"),
        pytest.param([DONE], id="nothing but done"),
        pytest.param([b": ping\n\n: ping\n\n"], id="only comments"),
        pytest.param([*PLAIN[:3], b'data: {"id": "c1", "choi'], id="cut in a chunk"),
        pytest.param([*PLAIN[:3], b"data"], id="cut in a field"),
        pytest.param([*PLAIN[:3], end("stop")[:-40]], id="cut in the last chunk"),
        pytest.param([b'{"id": "c1", "choices": [{"message": {"content": "Go'], id="cut in a plain body"),
        pytest.param([b'{"id": "c1", "created": -'], id="cut in a number"),
    ],
)
def test_a_reply_without_an_end_was_cut(reads):
    failed = error(*reads)
    assert isinstance(failed, TransportError)
    assert failed.retryable


def test_any_beginning_of_a_stream_is_a_cut_reply():
    body = b"".join(
        [chunk({"role": "assistant"}), text(EMOJI), *(calls(item(each, index=0)) for each in ("", "{}")), end("stop")]
    )
    complete = body.rindex(b"}")
    for at in range(complete):
        assert isinstance(error(body[:at]), TransportError)
    assert called(body.replace(b'"arguments": ""', b'"name": "f"')[: complete + 20]) == [("f", {})]


def test_any_beginning_of_a_plain_body_is_a_cut_reply():
    body = json.dumps({"n": -1.5e3, "choices": [{"message": {"content": EMOJI}, "finish_reason": "stop"}]}).encode()
    for at in range(len(body)):
        assert isinstance(error(body[:at]), TransportError)
    assert reply(body).text == EMOJI


def test_what_is_no_chunk_is_malformed():
    failed = error(*PLAIN[:2], b"data: oops\n\n", *PLAIN[2:])
    assert isinstance(failed, MalformedReply)
    assert "oops" in str(failed)
    assert reply(*PLAIN[:-1], b"data: oops\n\n").text == "Good day."  # after the end it does not matter


@pytest.mark.parametrize(
    "body",
    [b"<html><body>Sign in</body></html>", b"<!DOCTYPE html>\n\n<p>", b"{oops}", b"[1, 2]", b'{"a": 1}', b"[]", b"{}"],
)
def test_a_body_that_is_no_completion_is_malformed(body):
    failed = error(body)
    assert isinstance(failed, MalformedReply)
    assert body[:10].decode() in str(failed)


@pytest.mark.parametrize("choices", [5, "x", {"a": 1}, [5], [None], [[]], None, True])
def test_choices_of_odd_types(choices):
    assert error(json.dumps({"choices": choices}).encode()).retryable
    assert error(data({"choices": choices})).retryable


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'{"error": ' * 100_000, b'{"choices": [{"delta": {"content": ' + b"[" * 100_000]
)
def test_endless_nesting_is_malformed(body):
    assert isinstance(error(body), MalformedReply | TransportError)
    assert isinstance(error(b"data: " + body + b"\n\n", *PLAIN), MalformedReply)


# A whole body


def whole(**more):
    message = {"role": "assistant", "content": "Good day."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"} | more
    return {
        "id": "c1",
        "object": "chat.completion",
        "model": "m",
        "choices": [choice],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    }


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("before", [b"", b"\n ", b"\xef\xbb\xbf"])
def test_a_plain_body_for_a_stream(indent, before):
    body = before + json.dumps(whole(), indent=indent).encode()
    for reads in [body], [body[at : at + 1] for at in range(len(body))], [b"", body, b""]:
        events, result = parse(*reads)
        assert events == [TextDelta("Good day."), ReplyFinished("stop", 0)]
        assert (result.text, result.model, result.usage) == ("Good day.", "m", Usage(3, 2))


def test_a_plain_body_with_calls():
    message = {"content": None, "tool_calls": [item('{"a": 1}', "f", id="x"), item('{"a": 2}', "f", id="y")]}
    body = json.dumps(whole(message=message, finish_reason="tool_calls")).encode()
    assert called(body) == [("f", {"a": 1}), ("f", {"a": 2})]
    old = whole(
        message={"content": None, "function_call": {"name": "f", "arguments": '{"a": 1}'}},
        finish_reason="function_call",
    )
    assert called(json.dumps(old).encode()) == [("f", {"a": 1})]


@pytest.mark.parametrize("finish", [None, "", 5])
def test_a_plain_body_is_complete_without_saying_so(finish):
    assert reply(json.dumps(whole(finish_reason=finish)).encode()).finish_reason == "stop"
    assert reply(json.dumps([whole(finish_reason=finish)]).encode()).finish_reason == "stop"


def test_a_plain_body_with_an_empty_delta_beside_its_message():
    assert reply(json.dumps(whole(delta={})).encode()).text == "Good day."


# Errors


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"message": "queue full", "type": "server_error", "code": 503}, Overloaded),
        ({"message": "slow down", "code": "429"}, RateLimited),
        ({"message": "slow down", "type": "rate_limit_error"}, RateLimited),
        ({"message": "slow down", "code": "rate_limit_exceeded", "type": "invalid_request_error"}, RateLimited),
        ({"message": "no", "status_code": 400}, InvalidRequest),
        ({"message": "no", "type": "invalid_request_error"}, InvalidRequest),
        ({"message": "no", "type": "authentication_error"}, AuthenticationError),
        ({"message": "x", "code": "context_length_exceeded", "type": "invalid_request_error"}, ContextOverflow),
        ({"message": "x", "code": "tool_use_failed", "status_code": 400, "failed_generation": "g"}, ToolUseFailed),
        ({"message": "who knows"}, Overloaded),
        ({"error": {"message": "nested", "code": 429}}, RateLimited),
        ("engine died", Overloaded),
        (["engine died"], Overloaded),
        (True, Overloaded),
    ],
)
def test_an_error_inside_a_stream(fault, kind):
    frame = {"error": fault}
    bodies = [
        data(frame),
        data(frame | {"choices": []}),
        data(frame | {"choices": None}),
        data(frame | {"choices": [{"delta": {"content": ""}, "finish_reason": "error"}]}),
        text("so far") + data(frame),
        b"event: error\n" + data(frame),
        data([frame]),
        json.dumps(frame).encode(),
        json.dumps([frame], indent=2).encode(),
        json.dumps(frame | {"choices": []}).encode(),
        data({"x_groq": {"id": "r", "error": fault}, "choices": []}),
    ]
    for body in bodies:
        assert type(error(body)) is kind
        assert type(error(*(body[at : at + 1] for at in range(len(body))))) is kind
        assert body[:1] in b"{[" or type(error(body, end("stop"), DONE)) is kind


def test_an_error_that_nothing_is_wrapped_around():
    bare = {"object": "error", "message": "bad", "type": "BadRequestError", "code": 400}
    for body in data(bare), json.dumps(bare).encode(), json.dumps({"detail": "Not Found", "status": 404}).encode():
        assert type(error(body)) is InvalidRequest


def test_what_came_before_an_error_was_told_and_what_comes_after_it_is_not():
    events, result = parse(
        text("so far") + data({"error": {"message": "x", "code": 503}}) + text("more"), text("!"), end("stop")
    )
    assert events == [TextDelta("so far")]
    assert isinstance(result, ServiceError)
    assert result.status == 503


def test_an_error_says_when_to_come_back():
    failed = error(data({"error": {"message": "Rate limit. Please try again in 0.4s.", "code": 429}}))
    assert failed.retry_after == pytest.approx(0.4)


# Large reads


def like(count, content="word{} "):
    return [text(content.format(number)) for number in range(count)]


@pytest.mark.parametrize(
    "among",
    [
        pytest.param([], id="nothing"),
        pytest.param([chunk({"reasoning": "hm"})], id="reasoning"),
        pytest.param([chunk({"content": "x", "reasoning": "hm"})], id="text and reasoning"),
        pytest.param([calls(item('{"a": 1}', "f", id="x", index=0))], id="a call"),
        pytest.param([chunk({"content": 'quo"te \\ \n'})], id="text with escapes"),
        pytest.param([text("")], id="empty text"),
        pytest.param([text("x", usage={"prompt_tokens": 3})], id="usage"),
        pytest.param([b": ping\n\n"], id="a comment"),
        pytest.param([data({"error": {"message": "x", "code": 503}})], id="an error"),
        pytest.param([end("length")], id="an end"),
        pytest.param([DONE], id="done"),
        pytest.param([b"data: oops\n\n"], id="no JSON"),
        pytest.param([text("x").replace(b"data: ", b"data:")], id="no space"),
        pytest.param([text("x").replace(b"\n\n", b"\n")], id="no blank line"),
        pytest.param([text("x").replace(b'"x"', b'"\xff"')], id="no UTF-8"),
        pytest.param([b"\n\n\n"], id="blank lines"),
    ],
)
@pytest.mark.parametrize("at", [0, 1, 5, 30, 59, 60])
def test_many_chunks_in_one_read(among, at):
    """Runs of like chunks are read at once: the events are those of one read each."""
    reads = like(60)
    reads[at:at] = among
    reads += [end("stop"), DONE]
    one_by_one, expected = parse(*reads)
    for together in (
        [b"".join(reads)],
        [b"".join(reads[:30]), b"".join(reads[30:])],
        [b"".join(reads)[:5000], b"".join(reads)[5000:]],
    ):
        events, result = parse(*together)
        assert events == one_by_one
        assert type(result) is type(expected)
        assert not hasattr(expected, "text") or result == expected


def test_an_empty_text_is_none_though_it_is_like_the_others():
    later = chunk({"reasoning": "hm " * 5_000}) + text("")
    events, _ = parse(b"".join(like(200)), later, end("stop"), DONE)
    assert [each.text for each in events[200:-1]] == ["hm " * 5_000]


def test_a_huge_chunk_in_tiny_reads():
    body = text("x" * 30_000) + end("stop")
    stream = ChatStream()
    for at in range(len(body)):
        stream.feed(body[at : at + 1])
    stream.close()
    assert stream.reply().text == "x" * 30_000


def test_blank_bytes_before_a_reply_are_not_kept():
    """A service that keeps its connection alive with spaces can do so for ever."""
    stream = ChatStream()
    for _ in range(10_000):
        assert stream.feed(b" ") == []
    assert stream._plain == []
    assert stream._source is None
    for read in PLAIN:
        stream.feed(read)
    stream.close()
    assert stream.reply().text == "Good day."


def test_events_of_calls_come_as_they_become_certain():
    stream = ChatStream()
    assert stream.feed(calls(item("", "f", id="a", index=0))) != []
    assert stream.feed(calls(item('{"a": 1}', index=0))) == []
    assert len(call_events(stream.feed(calls(item("", "f", id="b", index=1))))) == 2


@pytest.mark.parametrize("start", [b'data: {"choices": [', b'{"choices": ['])
def test_what_never_ends_is_not_kept_for_ever(start):
    stream = ChatStream()
    stream.feed(start)
    fed = 0
    while stream.error is None and fed < 64 << 20:
        stream.feed(b" " * (1 << 20))
        fed += 1 << 20
    assert isinstance(stream.error, MalformedReply)
    assert fed <= 33 << 20
