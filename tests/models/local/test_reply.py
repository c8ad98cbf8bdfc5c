"""From the model's text to the reply of a service, however the text is cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.errors import TruncatedReply
from hotloop.models.local.reply import EngineFault, LineReader, ReplyWriter
from hotloop.models.reply import Reply
from hotloop.models.wire.chatstream import ChatStream

NAMES = ["look", "look_up", "go"]
USAGE = {"prompt_tokens": 5, "completion_tokens": 7}


def chunks(pieces: list[str], finish: str = "stop") -> Iterator[dict[str, Any]]:
    """What llama.cpp would send for a text decoded in these pieces."""
    for piece in pieces:
        yield {"choices": [{"text": piece, "finish_reason": None}]}
    yield {"choices": [{"text": "", "finish_reason": finish}], "usage": USAGE, "timings": {"cache_n": 3}}


def read(sent: Iterator[dict[str, Any]], names: list[str] = NAMES) -> Reply:
    """What an agent makes of the events. Raises the error that it would."""
    stream = ChatStream()
    stream.feed(b"".join(map(ReplyWriter(LineReader(names), "m"), sent)))
    stream.close()
    return stream.reply()


def calls(reply: Reply) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in reply.calls]


@st.composite
def cut(draw: st.DrawFn, text: str) -> list[str]:
    places = sorted(draw(st.sets(st.integers(1, max(1, len(text) - 1)))))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


TWO_CALLS = 'look_up {"a": "x look y"}\nlook {}'


@given(cut(TWO_CALLS))
def test_calls_are_the_same_however_their_text_is_cut(pieces: list[str]) -> None:
    reply = read(chunks(pieces))
    assert calls(reply) == [("look_up", '{"a": "x look y"}'), ("look", "{}")]
    assert (reply.text, reply.finish_reason) == ("", "tool_calls")


@pytest.mark.parametrize("text", ["looking good", "go", "Go {}", "l", "", 'a\nlook {"b": 1}', "您好\n\n"])
@given(data=st.data())
def test_what_does_not_begin_with_a_call_is_text(text: str, data: st.DataObject) -> None:
    reply = read(chunks(data.draw(cut(text))))
    assert (reply.text, calls(reply), reply.finish_reason) == (text, [], "stop")


def test_a_call_that_the_token_cap_cut_is_told_as_cut() -> None:
    with pytest.raises(TruncatedReply):
        read(chunks(['look {"a": '], finish="length"))


def test_text_where_only_calls_may_be_is_a_fault() -> None:
    write = ReplyWriter(LineReader(["look"], only_calls=True), "m")
    with pytest.raises(EngineFault, match="wrote 'Hm' instead of a call"):
        list(map(write, chunks(["Hm"])))
    write = ReplyWriter(LineReader(["look"]), "m")
    with pytest.raises(EngineFault, match="wrote 'Hm' instead of a call"):
        list(map(write, chunks(["look {}\n", "Hm"])))


def test_a_stream_ends_with_finish_usage_and_done() -> None:
    write = ReplyWriter(LineReader([]), "m")
    events = b"".join(map(write, chunks(["Hel", "lo"]))).decode().split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    frames = [msgspec.json.decode(event.removeprefix("data: ")) for event in events[:-2]]
    choices = [frame["choices"][0] if frame["choices"] else None for frame in frames]
    assert choices == [
        {"index": 0, "delta": {"role": "assistant", "content": "Hel"}, "finish_reason": None},
        {"index": 0, "delta": {"content": "lo"}, "finish_reason": None},
        {"index": 0, "delta": {}, "finish_reason": "stop"},
        None,
    ]
    assert (frames[-1]["usage"], frames[-1]["timings"]) == (USAGE, {"cache_n": 3})
    assert {frame["object"] for frame in frames} == {"chat.completion.chunk"}


def test_thoughts_are_kept_apart() -> None:
    deltas = [{"role": "assistant", "content": None}, {"reasoning_content": "Hm."}, {"content": "Yes."}]
    sent: list[dict[str, Any]] = [{"choices": [{"delta": delta, "finish_reason": None}]} for delta in deltas]
    sent.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    sent.append({"choices": [], "usage": USAGE, "timings": {}})
    reply = read(iter(sent))
    assert (reply.text, reply.reasoning) == ("Yes.", "Hm.")


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        ({"code": 400, "type": "exceed_context_size_error", "message": "too long"}, 400, "context_length_exceeded"),
        ({"code": 400, "type": "invalid_request_error", "message": "no"}, 400, "invalid_request_error"),
        ({"message": "oh"}, 500, "server_error"),
    ],
)
def test_errors_keep_their_status(error: dict[str, Any], status: int, code: str) -> None:
    with pytest.raises(EngineFault) as caught:
        ReplyWriter(LineReader([]), "m")({"error": error})
    assert caught.value.status == status
    told = msgspec.json.decode(caught.value.body)["error"]
    assert (told["code"], told["message"]) == (code, error["message"])
