import asyncio

import msgspec
import pytest

from hotloop.errors import InvalidRequest, TransportError
from hotloop.lab.script import ScriptExhausted, call, raw, say
from hotloop.lab.scripted import ScriptedModel
from hotloop.lab.virtual import run_virtual
from recorder import Recorder
from recorder import exchange as send_to

WORDS = " ".join(f"w{number}" for number in range(96))


def body(stream: bool = True, **fields) -> bytes:
    return msgspec.json.encode({"stream": stream, "messages": [{"role": "user", "content": "hello"}], **fields})


def exchange(model: ScriptedModel, request: bytes | None = None, enough: int | None = None) -> Recorder:
    return send_to(model, request or body(), enough)


def test_tokens_come_at_exact_times():
    recorder = exchange(ScriptedModel([WORDS], ttft=0.020, tpot=0.002))
    assert recorder.times == [20 + 2 * number for number in range(96)]
    assert recorder.times[-1] == 210
    assert recorder.parsed().text == WORDS


def test_without_tpot_all_comes_in_one_read():
    recorder = exchange(ScriptedModel([WORDS], ttft=0.060))
    assert recorder.times == [60]
    assert recorder.parsed().text == WORDS


def test_without_any_delay_all_comes_at_once():
    assert exchange(ScriptedModel([WORDS])).times == [0]


def test_a_body_comes_when_the_stream_would_end():
    recorder = exchange(ScriptedModel([WORDS], ttft=0.020, tpot=0.002), body(stream=False))
    assert recorder.times == [210]
    assert recorder.headers[b"content-type"] == b"application/json"
    assert recorder.parsed().text == WORDS


def test_calls_and_usage_arrive():
    model = ScriptedModel([say("Let me look.", call("find", order_id="1"), call("track", parcel=[1, 2]))], tpot=0.001)
    reply = exchange(model, body(stream_options={"include_usage": True})).parsed()
    assert reply.text == "Let me look."
    assert [(each.name, each.arguments) for each in reply.calls] == [
        ("find", '{"order_id":"1"}'),
        ("track", '{"parcel":[1,2]}'),
    ]
    assert reply.usage.output_tokens > 10


def test_replies_are_given_in_turn_and_requests_recorded():
    model = ScriptedModel(["one", "two"])
    assert [exchange(model, body(seed=seed)).parsed().text for seed in (1, 2)] == ["one", "two"]
    assert [request["seed"] for request in model.requests] == [1, 2]
    assert model.bodies == [body(seed=1), body(seed=2)]
    with pytest.raises(ScriptExhausted, match="Request 3 came"):
        exchange(model)


@pytest.mark.parametrize("stream", [True, False])
def test_a_reply_ends_at_the_cap(stream):
    recorder = exchange(ScriptedModel([WORDS], ttft=0.020, tpot=0.002), body(stream, max_tokens=3))
    assert recorder.times[-1] == 24
    assert (recorder.parsed().text, recorder.parsed().finish_reason) == ("w0 w1 w2", "length")


def test_a_function_may_answer():
    model = ScriptedModel(lambda request: f"You said {request['messages'][-1]['content']}.")
    assert [exchange(model).parsed().text for _ in range(2)] == ["You said hello."] * 2


def test_what_is_no_request_is_refused():
    with pytest.raises(InvalidRequest):
        exchange(ScriptedModel(["one"]), b"{}")


def test_raw_pieces_come_one_by_one_as_they_are():
    pieces = (b"data: {", b"", b"}\xff", b"\n\n")
    recorder = exchange(ScriptedModel([raw(*pieces)], ttft=0.005, tpot=0.001))
    assert recorder.chunks == list(pieces)
    assert recorder.times == [5, 6, 7, 8]
    assert (recorder.status, recorder.headers) == (200, {b"content-type": b"text/event-stream"})


def test_an_http_error_comes_with_its_headers():
    recorder = exchange(ScriptedModel([raw(b'{"error": {}}', status=429, headers={"Retry-After": "2"})]))
    assert recorder.status == 429
    assert recorder.headers == {b"content-type": b"application/json", b"retry-after": b"2"}


def test_a_reply_without_a_body_has_a_head():
    recorder = exchange(ScriptedModel([raw(status=503)]))
    assert (recorder.status, recorder.chunks) == (503, [])


def test_a_cut_reply_breaks_after_its_last_piece():
    async def main():
        recorder = Recorder()
        with pytest.raises(TransportError):
            await ScriptedModel([raw(b"data: {", cut=True)]).send(body(), recorder)
        return recorder.chunks

    assert run_virtual(main()) == [b"data: {"]


@pytest.mark.parametrize("reply", [WORDS, raw(*[b"x"] * 96, cut=True)])
def test_a_receiver_that_has_enough_gets_no_more(reply):
    recorder = exchange(ScriptedModel([reply], ttft=0.020, tpot=0.002), enough=3)
    assert recorder.times == [20, 22, 24]


def test_cancelling_leaves_no_timer_and_no_task():
    async def main():
        recorder = Recorder()
        sending = asyncio.create_task(ScriptedModel([WORDS], ttft=0.020, tpot=0.002).send(body(), recorder))
        await asyncio.sleep(0.0235)
        sending.cancel()
        await asyncio.wait([sending])
        assert sending.cancelled()
        assert recorder.times == [20, 22]
        assert asyncio.all_tasks() == {asyncio.current_task()}
        scheduled = asyncio.get_running_loop()._scheduled
        assert not [timer for timer in scheduled if not timer.cancelled()]

    run_virtual(main())


def test_replies_sent_together_keep_their_own_times():
    async def main():
        model, recorders = ScriptedModel([WORDS] * 3, ttft=0.020, tpot=0.002), [Recorder() for _ in range(3)]
        await asyncio.gather(*(model.send(body(), recorder) for recorder in recorders))
        return [recorder.times[-1] for recorder in recorders]

    assert run_virtual(main()) == [210, 210, 210]
