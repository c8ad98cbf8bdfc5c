import math

import msgspec
import pytest

from hotloop.errors import MalformedReply
from hotloop.models.wire.chatstream import ChatStream
from hotloop.models.wire.confidence import ScoredStream, confidence


def chunk(text="", logprobs=None, **more):
    choice = {"index": 0, "delta": {"content": text}, **more}
    if logprobs is not None:
        choice["logprobs"] = {"content": [{"token": "x", "logprob": each} for each in logprobs]}
    return b"data: " + msgspec.json.encode({"choices": [choice]}) + b"\n\n"


def read(*chunks, stream=ScoredStream):
    reader = stream()
    end = chunk(finish_reason="stop"), b"data: [DONE]\n\n"
    events = [event for each in (*chunks, *end) for event in reader.feed(each)]
    return reader, events + reader.close()


def test_the_least_certain_tenth_counts():
    logprobs = [-0.01] * 18 + [-1.0, -3.0]
    assert confidence(logprobs) == pytest.approx(math.exp(-2.0))
    assert confidence([-0.5]) == pytest.approx(math.exp(-0.5))
    assert confidence([]) is None
    assert confidence([0.0001]) == 1.0


def test_a_scored_reply_has_its_confidence_and_is_else_the_same():
    chunks = [chunk("one ", [-0.1]), chunk("two", [-0.2, -2.0])]
    scored, events = read(*chunks)
    plain, same = read(*chunks, stream=ChatStream)
    assert scored.reply().confidence == pytest.approx(math.exp(-2.0))
    assert plain.reply().confidence is None
    assert events == same
    assert scored.reply().text == plain.reply().text == "one two"


@pytest.mark.parametrize(
    "logprobs", [b"null", b'{"content":null}', b'{"content":[]}', b'{"content":[{"logprob":null}]}']
)
def test_services_that_do_not_tell_leave_it_unknown(logprobs):
    raw = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"logprobs":%b}]}\n\n' % logprobs
    assert read(raw)[0].reply().confidence is None


def test_odd_logprobs_do_not_spoil_a_reply():
    raw = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"logprobs":"many"}]}\n\n'
    reader, _ = read(raw, chunk("b", [-0.3]))
    assert (reader.reply().text, reader.reply().confidence) == ("ab", pytest.approx(math.exp(-0.3)))


def test_large_reads_are_scored_too():
    block = b"".join(chunk("w ", [-0.25]) for _ in range(300))
    assert len(block) > 8192
    assert read(block)[0].reply().confidence == pytest.approx(math.exp(-0.25))


def test_a_whole_body_is_scored():
    message = {"message": {"content": "yes"}, "finish_reason": "stop", "logprobs": {"content": [{"logprob": -0.7}]}}
    reader = ScoredStream()
    reader.feed(msgspec.json.encode({"choices": [message]}))
    reader.close()
    assert reader.reply().confidence == pytest.approx(math.exp(-0.7))


def test_faults_are_told_as_ever():
    reader, _ = read(b"data: {broken\n\n")
    with pytest.raises(MalformedReply):
        reader.reply()
